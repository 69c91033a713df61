"""What a proof takes: its pairs for the speed, and what judging the metric adds to them."""

from __future__ import annotations

from typing import NamedTuple

from autoaccel.runs.limits import PROOF_MARGIN
from autoaccel.statistics.deciding import MIN_PAIRS, deciding_pairs, expected_pairs, likely_pairs


class MetricTime(NamedTuple):
    """What judging the metric takes of a proof."""

    seconds: float = 0.0
    training_pairs: int = 0  # how many pairs train for it: these tell the speed, too
    at_once: bool = False  # whether they do so from the first on


NO_METRIC = MetricTime()


def proof_seconds(
    pair_seconds: float,
    speedup: float | None,
    metric: MetricTime = NO_METRIC,
    with_further: bool = True,
    drift: float = 0.0,
) -> float:
    """Return how long a proof may take: what is expected, with a margin of a fifth.

    Args:
        pair_seconds: What a pair takes that only tells the speed.
        speedup: Of the settings' steps over the baseline's; None if there are no settings to prove yet.
        metric: What judging it takes.
        with_further: Whether the further pairs after a close decision are counted; the proof holds without them, too.
        drift: Of the log speed-up from hour to hour, for which the interval has room.
    """
    deciding = deciding_pairs(speedup, drift) if speedup else MIN_PAIRS
    pairs = expected_pairs(speedup, drift) if speedup and with_further else deciding
    return PROOF_MARGIN * (_speed_pairs(deciding, pairs, metric) * pair_seconds + metric.seconds)


def likely_speed_seconds(
    pair_seconds: float, speedup: float, metric: MetricTime = NO_METRIC, drift: float = 0.0
) -> float:
    """Return how long the pairs of a proof are likely to take that only tell the speed; see `proof_seconds`.

    A proof that is likely to be given up should still have the time for all of its pairs, but will not take it.
    """
    pairs = likely_pairs(speedup, drift)
    return _speed_pairs(min(deciding_pairs(speedup, drift), pairs), pairs, metric) * pair_seconds


def _speed_pairs(deciding: int, pairs: int, metric: MetricTime) -> int:
    """Return how many pairs only tell the speed, of those that decide on it and of all."""
    return max(0 if metric.at_once else deciding, pairs - metric.training_pairs)
