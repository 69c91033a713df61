"""Which trials may win."""

from __future__ import annotations

from autoaccel.records.settings import Settings
from autoaccel.records.trial import Accuracy, Failure, Trial
from autoaccel.session.contenders import contenders, finalists

OWN: Settings = {"loader.workers": 0, "precision.autocast": "off", "layout.channels_last": False}
WORKERS: Settings = {**OWN, "loader.workers": 2}
CAST: Settings = {**OWN, "precision.autocast": "bfloat16"}
HOLDS = Accuracy("m", "maximize", 0.9, 0.9, 0.0, 0.001, 3, 1.0, (0.9,) * 3, (0.9,) * 3)


def trial(
    number: int, settings: Settings, seconds: float | None, accuracy: Accuracy | None = None, feasible: bool = True
) -> Trial:
    outcome = Failure("crashed", "only its times matter here")
    return Trial(number, settings, outcome, 1.0, total_seconds=seconds, accuracy=accuracy, feasible=feasible)


def numbers(trials: list[Trial]) -> list[int]:
    return [trial.number for trial in trials]


def test_the_shortest_run_that_keeps_the_metric_comes_first() -> None:
    trials = [trial(1, WORKERS, 80.0), trial(2, CAST, 60.0, HOLDS), trial(3, OWN, None)]
    assert numbers(contenders(trials, OWN, 100.0)) == [2, 1]


def test_settings_whose_metric_nobody_measured_cannot_win() -> None:
    unchecked, infeasible = trial(1, CAST, 50.0), trial(2, CAST, 40.0, HOLDS, feasible=False)
    assert numbers(contenders([unchecked, infeasible, trial(3, WORKERS, 90.0)], OWN, 100.0)) == [3]


def test_longer_runs_do_not_contend() -> None:
    assert contenders([trial(1, WORKERS, 100.0), trial(2, CAST, 120.0, HOLDS)], OWN, 100.0) == []


def test_finalists_are_few_and_close() -> None:
    trials = [trial(number, WORKERS, seconds) for number, seconds in enumerate((50.0, 52.4, 52.6, 50.1, 50.2), start=1)]
    assert numbers(finalists(trials, OWN, 98.0)) == [1, 4, 5]
    assert numbers(finalists(trials[:3], OWN, 98.0)) == [1, 2]
    assert finalists(trials, OWN, 50.0) == []
