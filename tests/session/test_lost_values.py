"""What became of each value: tried and lost, or not tried, and why."""

from __future__ import annotations

import msgspec
import pytest

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.conclusion import Lost
from autoaccel.records.messages import Failure, Turn
from autoaccel.records.recipe import StopReason, ValueResult
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement, Trial
from autoaccel.report.conclusions import value_result
from autoaccel.session.lost_values import lost_values
from autoaccel.statistics.comparison import compare_in_process

BASELINE: Settings = {"precision.autocast": "off", "compile.mode": "off", "loader.workers": 0}
CHOSEN: Settings = {**BASELINE, "precision.autocast": "bfloat16"}
SPACE = SearchSpace(
    name="test",
    open={
        "precision.autocast": ("off", "bfloat16", "float16"),
        "compile.mode": ("off", "default"),
        "loader.workers": (0, 1),
    },
    fixed={},
    closed={},
)


def trial(number: int, settings: Settings, speedup: float, total_seconds: float, feasible: bool = True) -> Trial:
    comparison = compare_in_process([(1.0, 1 / speedup)] * 8)
    outcome = Measurement(3.0, (1.0,), (Turn((1 / speedup,)),))
    return Trial(number, settings, outcome, 4.0, comparison, total_seconds=total_seconds, feasible=feasible)


WINNER = trial(1, CHOSEN, 1.5, 70.0)


def of(name: str, *others: Trial, chosen: Settings = CHOSEN) -> Lost:
    found = lost_values(SPACE, BASELINE, chosen, [WINNER, *others])
    return next(lost for lost in found if lost.knob == name)


def reason(lost: Lost, stop: StopReason = "nothing pays") -> str:
    return value_result(lost, stop, 3).reason


def test_only_what_the_recipe_and_the_user_do_not_have_is_told() -> None:
    found = lost_values(SPACE, BASELINE, CHOSEN, [WINNER])
    assert {(lost.knob, lost.value) for lost in found} == {
        ("precision.autocast", "float16"),
        ("compile.mode", "default"),
        ("loader.workers", 1),
    }


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        ("nothing pays", "cannot repay its cost"),
        ("out of time", "out of budget"),
        ("trials made", "all 3 requested trials were made"),
    ],
)
def test_what_was_not_tried_says_why(stop: StopReason, said: str) -> None:
    lost = of("compile.mode")
    assert (lost.because, lost.trials, lost.speedup) == ("untried", 0, None)
    assert reason(lost, stop).startswith(said)


def test_what_was_tried_says_why_it_lost() -> None:
    slower = trial(2, {**BASELINE, "compile.mode": "default"}, 0.6, 200.0)
    assert reason(of("compile.mode", slower)) == "slower than your own settings in every trial"
    late = trial(2, {**CHOSEN, "compile.mode": "default"}, 1.9, 90.0)
    assert value_result(of("compile.mode", slower, late), "nothing pays", 3) == ValueResult(
        "compile.mode", "default", 2, pytest.approx(1.9), "its steps are faster, but its slower start is not repaid"
    )
    less = trial(2, {**CHOSEN, "loader.workers": 1}, 1.2, 85.0)
    assert reason(of("loader.workers", less)) == "even its best trial is slower than the recipe"
    close = trial(2, {**CHOSEN, "loader.workers": 1}, 1.48, 71.0)
    assert reason(of("loader.workers", close)) == "its best trial is not clearly better than the recipe"
    assert reason(of("loader.workers", close, chosen=BASELINE)) == "not proven to make the run shorter"


def test_failures_and_dropped_metrics_are_reasons_too() -> None:
    failed = Trial(2, {**BASELINE, "precision.autocast": "float16"}, Failure("raised", "no such kernel"), 2.0)
    result = of("precision.autocast", failed)
    assert result.trials == 1 and reason(result) == "failed: no such kernel"
    dropped = trial(3, {**BASELINE, "precision.autocast": "float16"}, 1.7, 65.0, feasible=False)
    result = of("precision.autocast", failed, dropped)
    assert result.trials == 2 and reason(result) == "the metric may drop more than allowed"


def test_settings_that_do_more_than_round_are_left_to_runs() -> None:
    rounding = RoundingEvidence("too large", "its errors", 64, 3, 8)
    accuracy = Accuracy("accuracy", "maximize", None, None, None, None, 0, 0.0, (), (), "rounding", rounding=rounding)
    refused = trial(2, {**BASELINE, "precision.autocast": "float16"}, 1.7, 65.0)
    lost = of("precision.autocast", msgspec.structs.replace(refused, accuracy=accuracy))
    assert reason(lost) == "it changes more than rounding: only runs could show whether the metric is kept"
