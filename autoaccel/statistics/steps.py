"""From raw step times to the one time that a run pays per step."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from autoaccel.records.trial import Turn


def step_seconds_of_turns(turns: Sequence[Turn], steps_per_epoch: int, batch_factor: float = 1.0) -> tuple[float, ...]:
    """Return, for each turn, what a step of the training's own batch size costs a whole run, in seconds.

    Within a turn the mean: loader workers deliver in bursts, so that most steps wait for nothing and one waits for
    all. The first step of an epoch pays for the loader's restart; what it takes beyond the others is spread over
    the epoch's steps, because a turn sees it by chance.

    Args:
        turns: Of one process.
        steps_per_epoch: Of the training's own batch size.
        batch_factor: Samples of one of the process's steps, over those of a step of the training's own.
    """
    inner: list[float] = []
    first: list[float] = []
    for turn in turns:
        starts = set(turn.epoch_starts)
        first.extend(turn.step_seconds[index] for index in starts)
        others = [seconds for index, seconds in enumerate(turn.step_seconds) if index not in starts]
        inner.append(statistics.fmean(others or turn.step_seconds))
    typical = statistics.median(inner)
    restart = max(0.0, statistics.median(first) - typical) if first else 0.0
    return tuple(seconds / batch_factor + restart / steps_per_epoch for seconds in inner)


def settled_step_seconds(turns: Sequence[Turn], steps_per_epoch: int) -> float:
    """Return the median over turns of what a step costs a whole run, in seconds.

    Not the mean: a few disturbed turns can more than double it.
    """
    return statistics.median(step_seconds_of_turns(turns, steps_per_epoch))
