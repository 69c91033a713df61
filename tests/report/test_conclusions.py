"""Why searches and proofs ended, in words."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from rich.console import Console

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.conclusion import (
    LeftOpen,
    NothingBetter,
    NothingToWin,
    NotWorthProving,
    NotWorthTrying,
    Obstacle,
    Refused,
    RunsMissing,
    TooDisturbed,
    TooSmall,
    Unprovable,
)
from autoaccel.records.contender import JUDGEMENTS, OPEN, ProofResult
from autoaccel.records.evidence import MetricPlan
from autoaccel.records.recipe import Constraint, OpenProof, Recipe, StopReason
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Comparison
from autoaccel.report.conclusions import kept_words, left_open_words, stop_words, unprovable_lines
from autoaccel.report.html import render_report
from autoaccel.report.terminal import print_recipe
from autoaccel.report.wording import inexact_words
from tests.report import samples

BASELINE: Settings = {"precision.autocast": "off"}
CAST: Settings = {"precision.autocast": "bfloat16"}
NARROW = Comparison(1.01, 0.97, 1.05, "within noise", 0.975, 8, 64)
FAST = Comparison(1.6, 1.5, 1.7, "faster", 0.975, 8, 64)


def test_each_result_of_a_proof_that_was_made_says_something_to_the_search() -> None:
    assert {*get_args(ProofResult)} == {*JUDGEMENTS, "proven", "fails"}
    assert {*OPEN} <= {*JUDGEMENTS}


def test_every_reason_to_stop_has_its_own_words() -> None:
    words = [stop_words(stop, 7) for stop in get_args(StopReason)]
    assert len(set(words)) == len(words)
    assert stop_words("trials made", 7) == "all 7 requested trials were made"


@pytest.mark.parametrize(("stop", "hopeful"), [("nothing to win", False), ("nothing pays", True), (None, True)])
def test_only_where_there_is_nothing_to_win_no_larger_budget_is_recommended(
    stop: StopReason | None, hopeful: bool, tmp_path, capsys
) -> None:
    recipe = stopped(samples.NOTHING_FASTER, stop)
    print_recipe(Console(width=200), recipe, tmp_path / "recipe.json")
    assert ("a larger budget" in capsys.readouterr().out) == hopeful
    assert ("A larger budget" in render_report(recipe, None, ())) == hopeful


def stopped(recipe: Recipe, stop: StopReason | None) -> Recipe:
    return msgspec.structs.replace(recipe, search=msgspec.structs.replace(recipe.search, stop=stop))


def refused(
    result: ProofResult, comparison: Comparison | None, accuracy: Accuracy | None, obstacle: Obstacle = None
) -> str:
    words = kept_words(Refused(CAST, result, comparison, accuracy, obstacle, trials=5), BASELINE)
    assert words.startswith("Keep your own settings: ")
    return words


def test_why_a_proof_failed_is_told_with_its_numbers() -> None:
    accuracy = Accuracy("accuracy", "maximize", 0.98, 0.9, 0.08, 0.09, 3, 1.0, (0.98,) * 3, (0.9,) * 3)
    drops = refused("metric drops", NARROW, accuracy)
    assert "--max-drop" in drops and "0.98 -> 0.9 over 3 paired runs" in drops
    slower = refused("not faster", NARROW, None)
    assert "0.97x to 1.05x" in slower and "5 trials" in slower
    cut = refused("incomplete", None, None, "budget spent")
    assert "the budget was spent" in cut
    open_metric = refused("incomplete", FAST, accuracy, "budget spent")
    assert "1.50x to 1.70x" in open_metric and "may still be a drop of 0.09" in open_metric
    assert all("autocast=bfloat16" in sentence for sentence in (drops, slower, cut))


def test_settings_that_do_more_than_round_are_told_by_what_they_do_to_updates() -> None:
    found = RoundingEvidence("too large", "the mean of its updates' error is 0.3 of the mean of your own", 64, 3, 8)
    accuracy = Accuracy("accuracy", "maximize", None, None, None, None, 0, 0.0, (), (), "rounding", rounding=found)
    larger = refused("more than rounding", FAST, accuracy)
    assert "may cost more than --max-drop allows: more than rounding: the mean of its updates' error is 0.3" in larger
    differs = RoundingEvidence("open", "your own updates also differ", 64, 3, 8)
    unclear = refused("metric unclear", FAST, None, differs)
    assert "it is unclear whether precision.autocast=bfloat16 keeps the metric: " in unclear and unclear.endswith(
        ": your own updates also differ."
    )


def test_a_proof_that_is_left_open_says_which_budget_would_do_and_what_would_tell() -> None:
    left, by = OpenProof(CAST, 330.0), MetricPlan("share", 20, 3, 0)
    assert left_open_words(LeftOpen(left, 2.87, by, 7000.0), BASELINE) == (
        "A larger budget may prove precision.autocast=bfloat16, 2.87x as fast in the search, by 3 pairs of runs of "
        "20 steps: --resume --budget +6m. Whole planned runs are the strongest evidence: start a new run with "
        "--evidence whole --budget 117m."
    )
    exact = left_open_words(LeftOpen(left, 1.5, None, None), BASELINE)
    assert exact.endswith("1.50x as fast in the search: --resume --budget +6m.")


def test_planned_runs_that_scatter_too_much_are_asked_for_more_of() -> None:
    accuracy = Accuracy("accuracy", "maximize", 0.98, 0.97, 0.01, 0.05, 3, 1.0, (0.98,) * 3, (0.97,) * 3)
    unclear = refused("metric unclear", FAST, accuracy, RunsMissing(0.03, Constraint(0.01, False), 20, 36.0))
    assert unclear.endswith("takes about 20 pairs of runs (12 min 00 s). Increase --metric-repeats for more runs.")


def test_what_is_not_worth_its_proof_names_the_way_to_ask_for_it() -> None:
    assert "--trainings" in kept_words(NotWorthProving(3.0, 20), BASELINE)
    assert "3.0 s in total over 20 trainings" in kept_words(NotWorthProving(3.0, 20), BASELINE)
    assert "20 trainings like this one take 7 min 20 s in total" in kept_words(NotWorthTrying(22.0, 20), BASELINE)
    assert "one training takes 22.0 s in total" in kept_words(NotWorthTrying(22.0, 1), BASELINE)
    assert "about 1.15x as fast" in (told := kept_words(TooSmall(1.15, 1.29), BASELINE)) and "from 1.29x on" in told


def test_a_disturbed_machine_is_told() -> None:
    assert "too disturbed for a comparison" in kept_words(TooDisturbed(0.62), BASELINE)
    assert "62%" in kept_words(TooDisturbed(0.62), BASELINE)


def test_a_run_that_is_left_alone_says_what_its_steps_take() -> None:
    words = kept_words(NothingToWin(planned_steps=100, overhead_seconds=10.0, total_seconds=10.2), BASELINE)
    assert words == (
        "Tuning cannot help: a run takes 10.2 s, of which its 100 training steps take 200 ms and start-up the rest. "
        "Even if steps took no time, a run would be only 1.02x faster."
    )


def test_a_search_without_a_winner_counts_what_became_of_its_trials() -> None:
    assert kept_words(NothingBetter(0, 0, 0), BASELINE) == "Keep your own settings: no trial was worth its time."
    assert kept_words(NothingBetter(7, 2, 1), BASELINE) == (
        "Keep your own settings: none of 7 trials shortens the run (2 may cost more accuracy than --max-drop "
        "allows; 1 failed)."
    )


def test_what_cannot_be_proven_within_the_budget_is_told_a_line_for_each_reason() -> None:
    short, long = (Unprovable(MetricPlan("share", steps, 3, 0), 3.0 * steps, steps) for steps in (40, 80))
    both, one = unprovable_lines({"a": short, "b": long, "c": short})
    assert both == (
        "a, c: not searched, because showing that the metric is kept takes 3 pairs of runs of 40 steps (2 min 00 "
        "s); --budget 40m leaves time for that"
    )
    assert one.startswith("b: not searched, because ") and "runs of 80 steps (4 min 00 s)" in one


def test_what_only_redraws_samples_is_told_apart_from_what_must_keep_the_metric() -> None:
    why = "loading a sample draws random numbers"
    knobs = {"loader.workers": (0, 2), "loader.persistent": (True, False)}
    space = SearchSpace("t", knobs, {}, {}, inexact=dict.fromkeys(knobs, why))
    assert inexact_words(space) == [f"loader.workers, loader.persistent must be shown to keep the metric too: {why}"]
    space = SearchSpace("t", knobs, {}, {}, inexact=space.inexact, risks=dict.fromkeys(knobs, "redraws"))
    assert inexact_words(space) == [f"loader.workers, loader.persistent may change results as another seed does: {why}"]
