"""The drop of the metric and its upper bound, from runs that differ in nothing but the settings."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

from autoaccel.records.recipe import Constraint
from autoaccel.records.trial import Accuracy
from autoaccel.statistics.student import t_quantile

BOUND_CONFIDENCE = 0.95


def compare_metric(
    metric: str,
    direction: Literal["maximize", "minimize"],
    baseline_runs: Sequence[float],
    recipe_runs: Sequence[float],
    share: float,
    constraint: Constraint,
) -> Accuracy:
    """Return how much worse the metric gets, run by run from the same seed, with a one-sided 95 % t bound.

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
    drop_high = drop + t_quantile(BOUND_CONFIDENCE, count - 1) * statistics.stdev(drops) / math.sqrt(count)
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


def violation(accuracy: Accuracy, constraint: Constraint) -> float:
    """Return by how much the drop's upper bound exceeds what is allowed; the constraint holds if <= 0."""
    return accuracy.drop_high - constraint.max_drop
