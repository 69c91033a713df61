"""The search as an Optuna study: what it holds when it has ended, and who may sample."""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from autoaccel.errors import AutoaccelError
from autoaccel.records.accuracy import Accuracy
from autoaccel.records.messages import Failure, Turn
from autoaccel.records.progress import ignore
from autoaccel.records.settings import Settings, settings_key
from autoaccel.records.space import Forbidden, SearchSpace
from autoaccel.records.trial import Comparison, Measurement, Trial
from autoaccel.search.economy import Economy
from autoaccel.search.gradient import MAX_READINGS, KnowledgeGradient
from autoaccel.search.instruments import Instruments, QuickLook, Reading
from autoaccel.search.knowledge import Knowledge
from autoaccel.search.loop import Search
from autoaccel.search.sampler import KnowledgeGradientSampler, distributions_of
from autoaccel.search.storage import open_storage
from autoaccel.search.study import SearchStudy
from autoaccel.search.task import Prior, SearchTask

BASELINE: Settings = {"precision.autocast": "off", "layout.channels_last": False, "loader.workers": 0}
CAST: Settings = {**BASELINE, "precision.autocast": "bfloat16"}
SPACE = SearchSpace(
    name="test",
    open={
        "precision.autocast": ("off", "bfloat16", "float16"),
        "layout.channels_last": (False, True),
        "loader.workers": (0, 1, 2),
    },
    fixed={},
    closed={},
    forbidden=(Forbidden({"precision.autocast": "bfloat16", "loader.workers": 2}, "slow"),),
)
LOGS = {"bfloat16": 0.4, "True": 0.1, "1": 0.05, "2": -0.2}
STEP_SECONDS = 0.04
ECONOMY = Economy(1000, 20_000, STEP_SECONDS, 3.0, 0.0, 4.0)


class Bench:
    """A source and a clock that only measuring moves; float16 fails."""

    def __init__(self, budget_seconds: float = 300.0) -> None:
        self.budget_seconds = budget_seconds
        self.spent = 0.0
        self.random = random.Random(0)

    @property
    def left(self) -> float:
        return self.budget_seconds - self.spent

    def compare(self, settings: Settings, look: QuickLook) -> Reading | Failure:
        self.spent += 5.0
        if settings["precision.autocast"] == "float16":
            return Failure("crashed", "float16 is not for this machine")
        log = sum(LOGS.get(str(value), 0.0) for value in settings.values()) + self.random.gauss(0, 0.02)
        pairs = [(STEP_SECONDS, STEP_SECONDS * math.exp(-log - self.random.gauss(0, 0.02))) for _ in range(6)]
        turns = tuple(Turn((baseline,)) for baseline, _ in pairs)
        measurement = Measurement(3.0, (STEP_SECONDS,), tuple(Turn((other,)) for _, other in pairs))
        return Reading(measurement, turns, pairs, trusted=True)


def task_for(sampler: str = "autoaccel", max_trials: int | None = None) -> SearchTask:
    prior = Prior([CAST], dict.fromkeys(BASELINE, 0.2))
    return SearchTask(SPACE, BASELINE, ECONOMY, prior, max_trials=max_trials, sampler=sampler)


def search_in(path: Path, task: SearchTask, bench: Bench | None = None) -> Search:
    bench = bench or Bench()
    study = SearchStudy(open_storage(str(path)), "run-1", "host")
    return Search(task, Instruments(bench.compare, bench, ignore, ignore), study)


def load(path: Path) -> optuna.Study:
    """Return the study as a user would."""
    return optuna.load_study(study_name="run-1", storage=JournalStorage(JournalFileBackend(str(path))))


def nothing(settings: Settings, speedup: float | None) -> float:
    return 0.0


def is_told(told: optuna.trial.FrozenTrial, trial: Trial) -> bool:
    """Whether one of Optuna's trials is that trial: its settings, its value, and a number for each of its turns."""
    if told.params != trial.settings or told.user_attrs["settings"] != trial.settings:
        return False
    if isinstance(trial.outcome, Failure):
        return told.state == TrialState.FAIL and told.user_attrs["reason"] == trial.outcome.message
    logs = [math.log(baseline.step_seconds[0] / other.step_seconds[0])
            for baseline, other in zip(trial.baseline_turns, trial.outcome.turns, strict=True)]  # fmt: skip
    return (
        told.state == TrialState.COMPLETE
        and told.value == trial.total_seconds
        and told.constraints == {"metric": 0.0 if trial.feasible else 1.0}
        and list(told.intermediate_values.values()) == pytest.approx(logs)
    )


@pytest.mark.parametrize("sampler", ["autoaccel", "random"])
def test_the_finished_study_holds_the_baseline_and_then_every_trial(tmp_path: Path, sampler: str) -> None:
    search = search_in(tmp_path / "study.journal", task_for(sampler))
    search.run(nothing)
    study = load(tmp_path / "study.journal")
    baseline, *others = study.trials
    assert baseline.params == baseline.user_attrs["baseline"] == BASELINE
    assert baseline.value == pytest.approx(ECONOMY.baseline_total_seconds)
    assert baseline.distributions == distributions_of(task_for())
    told = [one for one in others if "not measured" not in one.user_attrs]
    assert len(told) == len(search.trials) > 3
    assert all(is_told(one, trial) for one, trial in zip(told, search.trials, strict=True))
    assert any(isinstance(trial.outcome, Failure) for trial in search.trials)
    refused = [one for one in others if "not measured" in one.user_attrs]
    assert all(one.state == TrialState.FAIL for one in refused)
    assert sampler != "autoaccel" or not refused
    assert study.best_params["precision.autocast"] == "bfloat16"


def test_what_a_proof_finds_is_a_trial_of_its_own(tmp_path: Path) -> None:
    search = search_in(tmp_path / "study.journal", task_for())
    search.run(nothing)
    before = len(load(tmp_path / "study.journal").trials)
    accuracy = Accuracy("m", "maximize", 0.9, 0.8, 0.1, 0.12, 3, 1.0, (0.9,) * 3, (0.8,) * 3)
    both: Settings = {**CAST, "layout.channels_last": True}
    search.judge(both, accuracy, "drops", Comparison(1.5, 1.4, 1.6, "faster", 0.95, 4, 32))
    search.judge(
        {**BASELINE, "layout.channels_last": True}, None, "holds", Comparison(1.1, 1.05, 1.2, "faster", 0.95, 4, 32)
    )
    search.judge({**BASELINE, "loader.workers": 1}, None, "slower")  # in an earlier part of the run
    search.fail({**BASELINE, "loader.workers": 2}, Failure("diverged", "its loss is no number"), 9.0)
    study = load(tmp_path / "study.journal")
    drops, holds, fails = study.trials[before:]
    assert (drops.params, drops.user_attrs["proof"], drops.constraints) == (both, "drops", {"metric": 1.0})
    assert drops.value == pytest.approx(3.0 + 20_000 * STEP_SECONDS / 1.5)
    assert msgspec.json.decode(drops.user_attrs["accuracy 0"])["drop_high"] == 0.12
    assert (holds.user_attrs["proof"], holds.constraints) == ("holds", {"metric": 0.0})
    assert (fails.state, fails.user_attrs["reason"]) == (TrialState.FAIL, "its loss is no number")
    assert study.best_trial.constraints == {"metric": 0.0}


def test_trials_of_an_earlier_part_are_told_again(tmp_path: Path) -> None:
    first = search_in(tmp_path / "first.journal", task_for(max_trials=4))
    first.run(nothing)
    second = search_in(tmp_path / "second.journal", task_for())
    trials = [msgspec.structs.replace(trial, feasible=trial.number != 1) for trial in first.trials]
    second.take_over(trials)
    told = load(tmp_path / "second.journal").trials[1:]
    assert len(told) == 4 and all(is_told(one, trial) for one, trial in zip(told, trials, strict=True))


@pytest.mark.parametrize("sampler", ["tpe", "random", "gp", "optuna.samplers:BruteForceSampler"])
def test_another_sampler_stops_by_the_same_rule_and_measures_only_what_may_be(tmp_path: Path, sampler: str) -> None:
    if sampler == "gp":
        pytest.importorskip("scipy")
    bench = Bench()
    search = search_in(tmp_path / "study.journal", task_for(sampler), bench)
    search.run(nothing)
    assert bench.spent < bench.budget_seconds
    assert search.best is not None and search.best.settings["precision.autocast"] == "bfloat16"
    assert search.trials[0].settings == CAST  # the experts' first guess
    assert all(SPACE.allows(trial.settings) and trial.settings != BASELINE for trial in search.trials)
    readings = Counter(settings_key(trial.settings) for trial in search.trials)
    assert max(readings.values()) <= MAX_READINGS
    failed = Counter(settings_key(one.settings) for one in search.trials if isinstance(one.outcome, Failure))
    assert set(failed.values()) <= {1}
    tight = Bench(budget_seconds=30.0)
    short = search_in(tmp_path / "short.journal", task_for(sampler), tight)
    short.run(lambda settings, speedup: 12.0)
    assert short.trials and tight.spent <= 30.0 - 12.0


STUBBORN = """
import optuna

class Stubborn(optuna.samplers.RandomSampler):
    def sample_independent(self, study, trial, param_name, param_distribution):
        return param_distribution.choices[0]

class Broken(Stubborn):
    def sample_independent(self, study, trial, param_name, param_distribution):
        raise LookupError("no idea")
"""


@pytest.fixture
def stubborn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "stubborn_sampler.py").write_text(STUBBORN)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("stubborn_sampler", None)


@pytest.mark.usefixtures("stubborn")
def test_a_sampler_that_proposes_the_same_for_ever_ends_the_search_no_later(tmp_path: Path) -> None:
    """It proposes the baseline: what pays most is tried instead."""
    baseline = search_in(tmp_path / "own.journal", task_for())
    baseline.run(nothing)
    search = search_in(tmp_path / "study.journal", task_for("stubborn_sampler:Stubborn"))
    search.run(nothing)
    assert [trial.settings for trial in search.trials] == [trial.settings for trial in baseline.trials]
    refused = [one.user_attrs.get("not measured") for one in load(tmp_path / "study.journal").trials]
    assert refused.count("it is the baseline") >= 10


@pytest.mark.usefixtures("stubborn")
def test_a_sampler_that_fails_is_one_clear_error(tmp_path: Path) -> None:
    search = search_in(tmp_path / "study.journal", task_for("stubborn_sampler:Broken"))
    with pytest.raises(AutoaccelError, match=r"the sampler Broken has failed \(LookupError: no idea\)"):
        search.run(nothing)
    assert len(search.trials) == 1  # the experts' guess


def test_autoaccels_sampler_is_one_of_optunas(tmp_path: Path) -> None:
    """In a study of one's own it proposes what pays most, and where nothing pays anything at all."""
    task = task_for()
    knowledge = Knowledge(task)
    study = optuna.create_study(sampler=KnowledgeGradientSampler(task, KnowledgeGradient(task, knowledge)))
    first = study.ask(dict(distributions_of(task)))
    assert first.params == CAST
    short = SearchTask(
        SPACE, BASELINE, Economy(1, 1, STEP_SECONDS, 3.0, 0.0, 4.0), Prior([], dict.fromkeys(BASELINE, 0.2))
    )
    study = optuna.create_study(sampler=KnowledgeGradientSampler(short, KnowledgeGradient(short, Knowledge(short))))
    assert set(study.ask(dict(distributions_of(short))).params) == set(BASELINE)
