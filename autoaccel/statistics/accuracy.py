"""The drop of the metric and its upper bound, from runs that differ in nothing but the settings."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Literal

from autoaccel.records.recipe import Constraint
from autoaccel.records.trial import Accuracy
from autoaccel.statistics.student import t_quantile

BOUND_CONFIDENCE = 0.95

MetricStatus = Literal["holds", "drops", "open"]


def compare_metric(
    metric: str,
    direction: Literal["maximize", "minimize"],
    baseline_runs: Sequence[float],
    recipe_runs: Sequence[float],
    share: float,
    constraint: Constraint,
    confidence: float = BOUND_CONFIDENCE,
) -> Accuracy:
    """Return how much worse the metric gets, run by run from the same seed, with a one-sided t bound.

    The drop is in the constraint's unit: a share of the baseline's mean if it is relative.

    Raises:
        ValueError: Unless there are at least two runs of each, as many of one as of the other.
    """
    count = len(recipe_runs)
    if count != len(baseline_runs) or count < 2:
        raise ValueError(f"two or more paired runs must be given, but got {len(baseline_runs)} and {count}")
    baseline = statistics.fmean(baseline_runs)
    sign = 1.0 if direction == "maximize" else -1.0
    unit = abs(baseline) if constraint.relative and baseline else 1.0
    drops = [sign * (own - other) / unit for own, other in zip(baseline_runs, recipe_runs, strict=True)]
    drop = statistics.fmean(drops)
    deviation = max(statistics.stdev(drops), _resolution([*baseline_runs, *recipe_runs]) / unit / math.sqrt(12))
    drop_high = drop + t_quantile(confidence, count - 1) * deviation / math.sqrt(count)
    return Accuracy(
        metric=metric,
        direction=direction,
        baseline=baseline,
        recipe=statistics.fmean(recipe_runs),
        drop=drop,
        drop_high=drop_high,
        repeats=count,
        share=share,
        baseline_runs=tuple(baseline_runs),
        recipe_runs=tuple(recipe_runs),
    )


def _resolution(values: Sequence[float]) -> float:
    """Return the smallest step in which a metric was seen to move; 0 if it never did.

    A metric that counts, as accuracy counts samples, may show the same drop three times by chance: what lies within a
    step is spread evenly at best, with a standard deviation of the step over the root of 12.
    """
    ordered = sorted(set(values))
    steps = [after - before for before, after in itertools.pairwise(ordered)]
    return min((step for step in steps if step > 1e-9 * abs(ordered[-1])), default=0.0)


def confidence_of_look(runs: int, first: int, most: int, error: float = 1 - BOUND_CONFIDENCE) -> float:
    """Return the confidence of the bound after so many runs, so that all looks together err with `error`.

    By then the square of the share of the runs is spent of it (an error-spending function: Kim and DeMets, Biometrika
    1987): early looks, of which hardly any could tell, leave most to the last.

    Args:
        runs: Made so far.
        first: After which one looks for the first time.
        most: After which one looks for the last time.
        error: Allowed for all looks.
    """
    before = ((runs - 1) / most) ** 2 if runs > first else 0.0
    return 1 - error * ((runs / most) ** 2 - before)


def metric_status(accuracy: Accuracy | None, constraint: Constraint, most_repeats: int) -> MetricStatus:
    """Return whether the metric keeps the constraint, breaks it, or more runs could tell.

    After `most_repeats` runs what may break it counts as breaking it.
    """
    if accuracy is None:
        return "open"
    if accuracy.drop_high <= constraint.max_drop:
        return "holds"
    drop_low = 2 * accuracy.drop - accuracy.drop_high
    return "drops" if drop_low > constraint.max_drop or accuracy.repeats >= most_repeats else "open"
