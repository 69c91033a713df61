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
    samples: int | None = None,
) -> Accuracy:
    """Return how much worse the metric gets, run by run from the same seed, with a one-sided t bound.

    The drop is in the constraint's unit: a share of the baseline's mean if it is relative. Runs that drop alike do not
    show that the next one would: of n that did not move by a step of the metric, Clopper and Pearson (Biometrika 1934)
    let 1 - (1 - confidence)^(1/n) of all move, which the bound allows for at least.

    Args:
        metric: Its name.
        direction: In which it is better.
        baseline_runs: Of each seed.
        recipe_runs: Of the same seeds.
        share: Of the planned run that was trained.
        constraint: What is allowed.
        confidence: Of the bound.
        samples: That the metric is computed from; None: unknown.

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
    by_spread = t_quantile(confidence, count - 1) * statistics.stdev(drops) / math.sqrt(count)
    step = _resolution([*baseline_runs, *recipe_runs], samples) / unit
    drop_high = drop + max(by_spread, (1 - (1 - confidence) ** (1 / count)) * step)
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


def _resolution(values: Sequence[float], samples: int | None) -> float:
    """Return the smallest step in which a metric was seen to move.

    If it never did, it is what one of the samples can move it by, where it is their mean: most metrics are, and lie
    between 0 and 1 or, as percentages and losses do, not far below their own size. Of unknown samples there may be one.
    """
    ordered = sorted(set(values))
    steps = [after - before for before, after in itertools.pairwise(ordered)]
    seen = [step for step in steps if step > 1e-9 * abs(ordered[-1])]
    return min(seen) if seen else max(1.0, abs(ordered[-1])) / (samples or 1)


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
    if accuracy is None or accuracy.drop is None or accuracy.drop_high is None:
        return "open"
    if accuracy.drop_high <= constraint.max_drop:
        return "holds"
    drop_low = 2 * accuracy.drop - accuracy.drop_high
    return "drops" if drop_low > constraint.max_drop or accuracy.repeats >= most_repeats else "open"
