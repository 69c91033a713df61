"""Words for what is known of the metric, and for the evidence."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from autoaccel.records.accuracy import Accuracy, exact_numbers
from autoaccel.records.check import AccuracyCheck
from autoaccel.records.recipe import Constraint, Recipe
from autoaccel.report.rounding import rounding_basis_words, rounding_words
from autoaccel.statistics.accuracy import MANY_RUNS
from autoaccel.text import one_line
from autoaccel.units import format_duration, two_digits


def metric_words(value: float) -> str:
    """Return a metric with as many digits as people compare: `0.9741`."""
    return f"{value:.4g}"


def drop_words(drop: float, constraint: Constraint) -> str:
    """Return a drop of the metric in the constraint's unit: percent of the baseline's, or the metric's own."""
    return f"{two_digits(drop * 100)} %" if constraint.relative else two_digits(drop)


def known_accuracy(recipe: Recipe) -> Accuracy:
    """Return what is known of the metric; recipes of earlier versions hold nothing for exact settings."""
    return recipe.accuracy or exact_numbers("the metric", "maximize")


def metric_change_words(accuracy: Accuracy) -> str:
    """Return the metric before and after: `test_accuracy 0.9741 -> 0.9736`; where no run trained, that it is kept."""
    if accuracy.baseline is None or accuracy.recipe is None:
        expected = accuracy.rounding is not None or accuracy.evidence == "redrawn"
        kept = "is expected to be kept" if expected else "is kept"
        return f"{one_line(accuracy.metric)} {kept}"
    return f"{one_line(accuracy.metric)} {metric_words(accuracy.baseline)} -> {metric_words(accuracy.recipe)}"


def accuracy_words(accuracy: Accuracy, constraint: Constraint) -> str:
    """Return the drop of the metric with its upper bound, and what was allowed; or why it needs no bound."""
    if accuracy.evidence == "exact":
        return "none of the changed settings can alter a number"
    if accuracy.evidence == "redrawn":
        return redrawn_words(accuracy.redrawn)
    if accuracy.rounding is not None:
        runs = f"; the runs alone do not decide it: {_bound_words(accuracy, constraint)}" if accuracy.repeats else ""
        return f"{one_line(rounding_words(accuracy.rounding))}{runs}"
    return _bound_words(accuracy, constraint)


def redrawn_words(names: Sequence[str]) -> str:
    """Return what settings do that change nothing but the random numbers of samples, and what that is like."""
    return f"{', '.join(names)}: other random numbers for your samples, as from another seed"


def _bound_words(accuracy: Accuracy, constraint: Constraint) -> str:
    """Return what runs say of the drop."""
    if accuracy.drop is None or accuracy.drop_high is None:
        return f"the drop is unknown, because no run was trained; {drop_words(constraint.max_drop, constraint)} allowed"
    drop = drop_words(abs(accuracy.drop), constraint)
    # Equal runs differ in the last digit of their mean.
    same = abs(accuracy.drop) < 1e-9
    mean = "no change" if same else f"{drop} {'better' if accuracy.drop < 0 else 'worse'}"
    bound = drop_words(max(0.0, accuracy.drop_high), constraint)
    return f"{mean} on average, at most {bound} worse; {drop_words(constraint.max_drop, constraint)} allowed"


def evidence_words(accuracy: Accuracy) -> str:
    """Return what an accuracy rests on: `judged on the first 25 % of the planned run, 3 pairs of runs ...`."""
    if accuracy.evidence == "exact":
        return "known without training: the recipe computes the same numbers"
    if accuracy.evidence == "redrawn":
        return "known without training: samples are drawn as before, and each worker has a seed of its own"
    if accuracy.evidence == "rounding":
        basis = f"{rounding_basis_words(accuracy.rounding)}; " if accuracy.rounding else ""
        runs = f"undecided {_runs_words(accuracy)}" if accuracy.repeats else "the planned run was not trained"
        redrawn = f"; {redrawn_words(accuracy.redrawn)}" if accuracy.redrawn else ""
        return f"judged by rounding: {basis}{runs}{redrawn}"
    more = "" if accuracy.evidence == "whole" else "; a larger --budget covers more of the run"
    return f"judged {_runs_words(accuracy)}{more}"


def _runs_words(accuracy: Accuracy) -> str:
    """Return what was trained: `on the first 25 % of the planned run, 3 pairs of runs from the same seeds`."""
    share = two_digits(accuracy.share * 100)
    what = "whole planned runs" if accuracy.share == 1 else f"the first {share} % of the planned run"
    pairs = "1 pair of runs" if accuracy.repeats == 1 else f"{accuracy.repeats} pairs of runs"
    return f"on {what}, {pairs} from the same seeds"


def seen_words(accuracy: Accuracy) -> str:
    """Return what was seen of settings that are not proven: the metric of paired runs, or what updates say."""
    if accuracy.rounding is not None:
        return one_line(rounding_words(accuracy.rounding))
    return f"{metric_change_words(accuracy)} over {accuracy.repeats} paired runs"


def more_runs_words(baseline_deviation: float, constraint: Constraint, runs: int, pair_seconds: float) -> str:
    """Return why runs could not tell whether the metric keeps the constraint, and how many would.

    Args:
        baseline_deviation: Of the metric from seed to seed under the user's own settings.
        constraint: What is allowed.
        runs: How many pairs would suffice if the settings are harmless.
        pair_seconds: What each takes.
    """
    needed = f"about {runs} pairs of runs ({format_duration(runs * pair_seconds)})"
    needed = needed if runs < MANY_RUNS else "more runs than are practical"
    allowed = drop_words(constraint.max_drop, constraint)
    return (
        f"under your own settings the metric varies by {two_digits(baseline_deviation)} between seeds: to show that "
        f"the drop is below {allowed} takes {needed}"
    )


def check_advice(check: AccuracyCheck) -> str:
    """Return how to continue a check that is not clear yet."""
    again = "Run the same command again to continue"
    if check.accuracy is None or check.pair_seconds is None:
        return again
    deviation = statistics.stdev(check.accuracy.baseline_runs)
    needed = more_runs_words(deviation, check.constraint, check.pairs_needed or MANY_RUNS, check.pair_seconds)
    return f"{needed[0].upper()}{needed[1:]}; {check.accuracy.repeats} are done. {again}"
