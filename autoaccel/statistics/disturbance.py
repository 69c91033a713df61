"""Turns in which the machine was busy with something else."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from autoaccel.records.messages import Turn

_DISTURBED = 1.5
"""A turn whose baseline steps all take this many times what they usually take says little: contention does not slow all
settings alike. Undisturbed turns scatter by 0.1 to 0.15 (standard deviation of the logarithm) on the benchmark's two
shared cores, so that three deviations lie below it; where turns scatter less, on a machine of one's own, it could be
lower."""

_TOGETHER = 1.2
"""So many times its usual time the candidate's quickest step takes beside such a turn at least if both were slowed:
contention hits some settings less than others."""

_STEPS = 3  # that a neighbour slows in a row at least, while a training's own long steps come one at a time

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


def undisturbed(
    turns: Sequence[tuple[Turn, Turn]], step_seconds: Sequence[tuple[float, float]], usual: float
) -> list[bool]:
    """Return for each two turns, the baseline's and the candidate's beside it, whether they count.

    They do not where somebody else has worked: all steps of the baseline's turn were slow, and those of the
    candidate's as well, or those of the baseline's turn before or after it. Neither do turns right before or after
    these in which the baseline was slower on average, as he came or went within them. On the recorded tables such
    neighbours slow a baseline of two threads twentyfold for many turns, and a candidate of one thread not at all.

    Long steps that come one at a time are the training's own, and a run pays for them: without them, what rids a
    training of its long steps would gain nothing. A burst that hits a single turn hits either side as often.

    Of the candidate alone nothing is left out: that would make it faster than it is. What the baseline itself does for
    several turns now and then is lost, which makes no candidate seem faster.

    Args:
        turns: In their order.
        step_seconds: Of each (`step_seconds_of_turns`).
        usual: Step seconds of the baseline while nothing disturbs it.
    """
    own, others = (
        [(both[side], seconds[side]) for both, seconds in zip(turns, step_seconds, strict=True)] for side in (0, 1)
    )
    slow = [seconds > _DISTURBED * usual for seconds in _quickest(own)]
    beside = [seconds for (_, seconds), is_slow in zip(others, slow, strict=True) if not is_slow]
    if not beside:
        return [False] * len(slow)
    slow_beside = [seconds > _TOGETHER * usual_seconds(beside) for seconds in _quickest(others)]
    worked = [
        one and (also or any(slow[max(0, index - 1) : index] + slow[index + 1 : index + 2]))
        for index, (one, also) in enumerate(zip(slow, slow_beside, strict=True))
    ]
    slower = [seconds > _DISTURBED * usual for _, seconds in own]
    for indices in (range(1, len(worked)), range(len(worked) - 2, -1, -1)):
        for index in indices:
            before = index - 1 if indices.step > 0 else index + 1
            worked[index] = worked[index] or (slower[index] and worked[before])
    return [not one for one in worked]


def _quickest(turns: Sequence[tuple[Turn, float]]) -> list[float]:
    """Return for each turn the seconds of its quickest step, or of that of two turns where they have too few steps."""
    own = [seconds * min(turn.step_seconds) / statistics.fmean(turn.step_seconds) for turn, seconds in turns]
    if not turns or statistics.median(len(turn.step_seconds) for turn, _ in turns) >= _STEPS:
        return own
    return [min(own[index - index % 2 :][:2]) for index in range(len(own))]
