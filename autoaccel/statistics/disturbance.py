"""Turns in which the machine was busy with something else."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

_DISTURBED = 1.5
"""A turn whose baseline steps take this many times what they usually take says little: contention does not slow all
settings alike. Undisturbed turns scatter by 0.1 to 0.15 (standard deviation of the logarithm) on the benchmark's two
shared cores, so that three deviations lie below it; where turns scatter less, on a machine of one's own, it could be
lower."""

TOO_DISTURBED = 0.5
"""A machine with more than this share of disturbed turns is too busy to be measured on."""


RECENT_TURNS = 40
"""The usual time is that of this many last turns: a machine that has become slower for good is not disturbed."""


def usual_seconds(step_seconds: Sequence[float]) -> float:
    """Return what the baseline's step takes while nothing disturbs it: the lower quartile over its turns.

    The lower, because others can only make it slower; not the least, which is luck.
    """
    if len(step_seconds) == 1:
        return step_seconds[0]
    return statistics.quantiles(step_seconds, n=4, method="inclusive")[0]


def undisturbed(baseline_step_seconds: Sequence[float], usual: float) -> list[bool]:
    """Return for each turn whether it counts.

    Only the baseline's own time decides: rejecting a candidate's slow turns would make it faster than it is.
    """
    return [seconds <= _DISTURBED * usual for seconds in baseline_step_seconds]
