"""What a run comes to, in a sentence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from autoaccel.records.recipe import OpenProof
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Accuracy, Comparison
from autoaccel.session.ending import (
    Ending,
    _project,
    break_even_steps,
    not_worth_proving,
    open_proof_words,
    proven,
    too_disturbed,
    why_not,
    with_open_proof,
)
from autoaccel.session.evidence import MetricPlan
from autoaccel.session.proof import Proof
from autoaccel.session.yardstick import Yardstick
from autoaccel.statistics.runs import CompileSeconds

OWN: Settings = {"precision.autocast": "off"}
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
    found = break_even_steps(compile_seconds - 0.1, step_seconds, own_step=0.04)
    assert found == steps or (found is not None and steps is not None and abs(found - steps) <= 1)


def test_a_projection_is_of_an_average_run_and_says_what_the_first_and_later_ones_take() -> None:
    facts, measurement = SimpleNamespace(planned_steps=1000), SimpleNamespace(startup_seconds=3.0)
    yardstick = SimpleNamespace(facts=facts, measurement=measurement)
    twice = Comparison(2.0, 1.9, 2.1, "faster", 0.95, 8, 64)
    ending = Ending("", CAST, twice, CompileSeconds(20.0, 3.0), CompileSeconds(0.5, 0.5), 0.1)
    found = _project(cast("Yardstick", yardstick), ending, runs=10)
    assert (found.first_run_seconds, found.later_run_seconds) == pytest.approx((73.0, 56.0))
    assert found.compile_seconds == pytest.approx(4.7)
    assert found.total_seconds == pytest.approx((73.0 + 9 * 56.0) / 10)
    assert found.baseline_total_seconds == pytest.approx(103.5)
    assert found.run is not None and found.run.speedup == pytest.approx(103.5 / 57.7)
    assert found.break_even_steps == 84  # 4.2 s at 50 ms a step
    once = _project(cast("Yardstick", yardstick), ending, runs=1)
    assert once.total_seconds == once.first_run_seconds


def test_a_claim_leaves_room_for_the_drift_of_a_shared_machine() -> None:
    def summary(speedup: float, low: float, high: float, drift: float) -> str:
        proof = Proof("proven", [[(1.0, 1.0 / speedup)]], Comparison(speedup, low, high, "faster", 0.975, 8, 64), None)
        ending = proven(proof, CAST, OWN, NOTHING, NOTHING, drift)
        assert ending.comparison is not None
        assert ending.comparison.verdict == "faster"
        return ending.summary

    assert summary(1.5, 1.4, 1.61, 0.0) == (
        "1.50x faster steps, at least 1.40x with 95% confidence: precision.autocast=bfloat16."
    )
    assert "at least 1.29x" in summary(1.5, 1.4, 1.61, 0.06)
    # A whole run was claimed to be faster with an interval of the steps of 0.98 to 1.28.
    assert summary(1.1, 1.05, 1.15, 0.06) == (
        "1.10x faster steps while they were measured, 0.95x to 1.27x at another hour of a shared machine, which is no "
        "claim for a whole run: precision.autocast=bfloat16."
    )


def test_why_a_proof_failed_is_told_with_its_numbers() -> None:
    accuracy = Accuracy("accuracy", "maximize", 0.98, 0.9, 0.08, 0.09, 3, 1.0, (0.98,) * 3, (0.9,) * 3)
    drops = why_not(Proof("metric drops", [], NARROW, accuracy), CAST, OWN, 5)
    assert "--max-drop" in drops and "0.98 -> 0.9 over 3 paired runs" in drops
    slower = why_not(Proof("not faster", [], NARROW, None), CAST, OWN, 5)
    assert "0.97x to 1.05x" in slower and "5 trials" in slower
    cut = why_not(Proof("incomplete", [], None, None, "the budget was spent"), CAST, OWN, 5)
    assert "the budget was spent" in cut
    open_metric = why_not(Proof("incomplete", [], FAST, accuracy, "the budget was spent"), CAST, OWN, 5)
    assert "1.50x to 1.70x" in open_metric and "may still be a drop of 0.09" in open_metric
    assert all("autocast=bfloat16" in sentence for sentence in (drops, slower, cut))


def test_settings_that_do_more_than_round_are_told_by_what_they_do_to_updates() -> None:
    found = RoundingEvidence("too large", "the mean of its updates' error is 0.3 of the mean of your own", 64, 3, 8)
    accuracy = Accuracy("accuracy", "maximize", None, None, None, None, 0, 0.0, (), (), "rounding", rounding=found)
    refused = why_not(Proof("more than rounding", [], FAST, accuracy), CAST, OWN, 5)
    assert "may cost more than --max-drop allows: more than rounding: the mean of its updates' error is 0.3" in refused
    unclear = why_not(Proof("metric unclear", [], FAST, None, "your own updates differ as well"), CAST, OWN, 5)
    assert unclear.endswith("was not to be told: your own updates differ as well.")


def test_a_proof_that_is_left_open_says_which_budget_would_do_and_what_would_tell() -> None:
    left, by = OpenProof(CAST, 330.0), MetricPlan("share", 20, 3, 0)
    by_share = open_proof_words(left, OWN, 2.87, by, 7000.0)
    assert by_share == (
        "A larger budget may prove precision.autocast=bfloat16, 2.87x as fast in the search, by 3 pairs of runs of 20 "
        "steps: --resume --budget +6m. Planned runs would tell most: a new run with --evidence whole --budget 117m."
    )
    exact = open_proof_words(left, OWN, 1.5, None, None)
    assert exact.endswith("1.50x as fast in the search: --resume --budget +6m.")
    # Where something was proven that is not the news; the command is printed all the same.
    unchanged = Comparison(1.0, 1.0, 1.0, "within noise", 0.95, 0, 0)
    for comparison, said in ((unchanged, f"It stays. {exact}"), (FAST, "It stays.")):
        ending = with_open_proof(Ending("It stays.", OWN, comparison, NOTHING, NOTHING, 0.1), left, exact)
        assert (ending.summary, ending.open_proof) == (said, left)


def test_planned_runs_that_scatter_too_much_are_asked_for_more_of() -> None:
    accuracy = Accuracy("accuracy", "maximize", 0.98, 0.97, 0.01, 0.05, 3, 1.0, (0.98,) * 3, (0.97,) * 3)
    unclear = why_not(Proof("metric unclear", [], FAST, accuracy, "takes about 20 pairs of runs"), CAST, OWN, 5)
    assert unclear.endswith("takes about 20 pairs of runs. --metric-repeats asks for more of them.")


def test_what_is_not_worth_its_proof_names_the_way_to_ask_for_it() -> None:
    assert "--runs" in not_worth_proving(3.0, 20)
    assert "3.0 s in all on 20 runs" in not_worth_proving(3.0, 20)


def test_a_disturbed_machine_is_told() -> None:
    assert "too disturbed to tell" in too_disturbed(0.62)
    assert "62%" in too_disturbed(0.62)
