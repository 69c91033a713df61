"""The speed-up over the baseline, its interval and the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from autoaccel.records.trial import Comparison, Verdict
from autoaccel.statistics.student import t_quantile

NOISE_THRESHOLD = 0.02
"""A speed-up must clear 1 by this much with its whole interval, as in criterion.rs: less is not worth a setting."""

CONFIDENCE = 0.95
_RESAMPLES = 2000
_SEED = 20100  # of the bootstrap: the same times give the same interval

Pair = tuple[float, float]
"""Step seconds of the baseline and of the candidate, taken in turns right after one another."""


def compare(processes: Sequence[Sequence[Pair]], confidence: float = CONFIDENCE) -> Comparison:
    """Return what pairs of processes say about a candidate's speed-up over the baseline.

    Both levels of noise count: turns within a pair of processes, and pairs of processes (Kalibera and Jones, ISMM
    2013). Within a pair the median of the turns' ratios, over pairs the geometric mean; the interval is a two-level
    percentile bootstrap on the log ratio. With few pairs such an interval is too narrow; its distance from the
    estimate is widened by t(n - 1) / z * sqrt(n / (n - 1)), the correction behind the expanded percentile interval
    (Hesterberg, The American Statistician 2015). With one pair only turns are resampled: such an interval
    ranks candidates, it proves nothing.

    Args:
        processes: For each pair of fresh processes its turns, at least one.
        confidence: Two-sided.

    Raises:
        ValueError: If there is no pair, or one without turns.
    """
    if not processes or not all(processes):
        raise ValueError("every pair of processes must have at least one turn")
    logs = [np.log([baseline / candidate for baseline, candidate in turns]) for turns in processes]
    estimate = float(np.mean([np.median(turns) for turns in logs]))
    generator = np.random.default_rng(_SEED)
    # One row per resample: medians of resampled turns for every pair, then pairs drawn among them.
    medians = np.stack(
        [np.median(turns[generator.integers(len(turns), size=(_RESAMPLES, len(turns)))], axis=1) for turns in logs],
        axis=1,
    )
    count = len(logs)
    drawn = generator.integers(count, size=(_RESAMPLES, count))
    means = np.take_along_axis(medians, drawn, axis=1).mean(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    widen = 1.0
    if count > 1:
        widen = t_quantile(1 - tail, count - 1) / NormalDist().inv_cdf(1 - tail) * math.sqrt(count / (count - 1))
    low = math.exp(estimate + widen * (min(float(low), estimate) - estimate))
    high = math.exp(estimate + widen * (max(float(high), estimate) - estimate))
    return Comparison(
        speedup=math.exp(estimate),
        low=low,
        high=high,
        verdict=verdict_of(low, high),
        confidence=confidence,
        process_pairs=count,
        turns=sum(len(turns) for turns in processes),
    )


def verdict_of(low: float, high: float) -> Verdict:
    """Return the verdict of an interval: faster or slower only where the whole of it clears the noise threshold."""
    if low > 1 + NOISE_THRESHOLD:
        return "faster"
    if high < 1 / (1 + NOISE_THRESHOLD):
        return "slower"
    return "within noise"
