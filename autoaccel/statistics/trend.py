"""Whether the ratio of two processes still changes while they are measured."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

_SURE = 3.3
"""Standard deviations of Kendall's sum without a trend: 1 of 1,000 pairs of processes seems to have one by chance."""

_MATTERS = 0.02  # change of the log ratio from one half of the turns to the other: less decides nothing


def has_trend(processes: Sequence[Sequence[float]]) -> bool:
    """Return whether the log ratios of turns rise or fall with time, alike in all pairs of processes.

    By the test of Mann and Kendall (Econometrica 1945), which asks only which of two turns is larger, so that a few
    disturbed ones count little. The sums of several series add up, as for the seasons of Hirsch, Slack and Smith (Water
    Resources Research 1982). A speed of the machine that changes both sides alike is in no ratio.

    Args:
        processes: For each pair of processes the log ratios of its turns, in their order.
    """
    series = [logs for logs in processes if len(logs) >= 2]
    if not series:
        return False
    total = sum((late > early) - (late < early) for logs in series for early, late in itertools.combinations(logs, 2))
    variance = sum(len(logs) * (len(logs) - 1) * (2 * len(logs) + 5) / 18 for logs in series)
    return abs(total) > _SURE * math.sqrt(variance) and abs(_change(series)) > _MATTERS


def _change(series: Sequence[Sequence[float]]) -> float:
    """Return by how much the second half of the turns differs from the first, usually."""
    halves = [(logs[: len(logs) // 2], logs[-(len(logs) // 2) :]) for logs in series]
    return statistics.median(statistics.median(late) - statistics.median(early) for early, late in halves)
