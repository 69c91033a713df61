"""What a run comes to."""

from __future__ import annotations

import msgspec
import pytest

from autoaccel.proof.course import Proof
from autoaccel.records.conclusion import LeftOpen, NotWorthProving
from autoaccel.records.messages import Turn
from autoaccel.records.recipe import OpenProof
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison, Measurement
from autoaccel.records.workload import TrainingFacts
from autoaccel.report.conclusions import left_open_words
from autoaccel.session.best import Best, break_even_steps
from autoaccel.statistics.runs import CompileSeconds

BASELINE: Settings = {"precision.autocast": "off"}
CAST: Settings = {"precision.autocast": "bfloat16"}
NARROW = Comparison(1.01, 0.97, 1.05, "within noise", 0.975, 8, 64)
FAST = Comparison(1.6, 1.5, 1.7, "faster", 0.975, 8, 64)
NOTHING = CompileSeconds(0.0, 0.0)


@pytest.mark.parametrize(
    ("step_seconds", "compile_seconds", "steps"),
    [
        (0.03, 0.1, 0),  # nothing to repay
        (0.03, 20.1, 2000),  # 20 s at 10 ms a step
        (0.05, 20.1, None),  # never
        (0.05, 0.0, 0),
    ],
)
def test_the_break_even_is_where_slower_first_steps_are_repaid(
    step_seconds: float, compile_seconds: float, steps: int | None
) -> None:
    found = break_even_steps(compile_seconds - 0.1, step_seconds, baseline_step=0.04)
    assert found == steps or (found is not None and steps is not None and abs(found - steps) <= 1)


def test_a_projection_is_of_an_average_run_and_says_what_the_first_and_later_ones_take(facts: TrainingFacts) -> None:
    facts = msgspec.structs.replace(facts, epochs=50, steps_per_epoch=20)
    measured = Measurement(3.0, (0.1,), (Turn((0.1,)),))
    twice = Comparison(2.0, 1.9, 2.1, "faster", 0.95, 8, 64)
    best = Best(CAST, twice, CompileSeconds(20.0, 3.0), CompileSeconds(0.5, 0.5), 0.1)
    found = best.projection(facts, measured, trainings=10)
    assert (found.first_run_seconds, found.later_run_seconds) == pytest.approx((73.0, 56.0))
    assert found.compile_seconds == pytest.approx(4.7)
    assert found.total_seconds == pytest.approx((73.0 + 9 * 56.0) / 10)
    assert found.baseline_total_seconds == pytest.approx(103.5)
    assert found.run is not None and found.run.speedup == pytest.approx(103.5 / 57.7)
    assert found.break_even_steps == 84  # 4.2 s at 50 ms a step
    once = best.projection(facts, measured, trainings=1)
    assert once.total_seconds == once.first_run_seconds


def test_the_interval_that_decided_is_the_one_that_is_claimed_with_its_confidence() -> None:
    """A recipe was written whose own claim was 0.97x to 1.30x: another interval had decided."""
    decided = Comparison(1.5, 1.4, 1.61, "faster", 0.975, 8, 64, drift=0.07)
    best = Best.proven(CAST, Proof("proven", [[(1.0, 1.0 / 1.5)]], decided, None), (NOTHING, NOTHING))
    assert best.comparison == decided
    assert best.summary(BASELINE) == (
        "1.50x faster steps, at least 1.40x with 97.5 % confidence: precision.autocast=bfloat16."
    )


def test_a_proof_that_is_left_open_is_told_where_nothing_was_proven() -> None:
    """Where something was, that is not the news; the command is printed all the same."""
    left = LeftOpen(OpenProof(CAST, 330.0), 1.5, None, None)
    unchanged = Comparison(1.0, 1.0, 1.0, "within noise", 0.95, 0, 0)
    kept = Best(BASELINE, unchanged, NOTHING, NOTHING, 0.1, NotWorthProving(3.0, 20), left_open=left)
    assert kept.summary(BASELINE).endswith(f". {left_open_words(left, BASELINE)}")
    assert "larger budget" not in Best(CAST, FAST, NOTHING, NOTHING, 0.1, left_open=left).summary(BASELINE)
