"""From raw step times to the one time that a run pays per step."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from autoaccel.records.messages import Turn


def step_seconds_of_turns(turns: Sequence[Turn], steps_per_epoch: int, batch_factor: float = 1.0) -> tuple[float, ...]:
    """Return, for each turn, what a step of the training's own batch size costs a whole run, in seconds.

    Within a turn the mean: loader workers deliver in bursts, so that most steps wait for nothing and one waits for
    all. The first step of an epoch pays for the loader's restart; what it takes beyond the others is spread over
    the epoch's steps, because a turn sees it by chance. An epoch's last step, of fewer
    samples, is left out for the same reason. Where a turn sees no other steps, all count, each by its samples.

    Args:
        turns: Of one process.
        steps_per_epoch: Of the training's own batch size.
        batch_factor: Samples of one of the process's steps, over those of a step of the training's own.
    """
    inner: list[float] = []
    first: list[tuple[float, float]] = []  # seconds, and for how many of the training's own steps
    for turn in turns:
        worth = [batch_factor * share for share in turn.step_shares or (1.0,) * len(turn.step_seconds)]
        steps = list(zip(turn.step_seconds, worth, strict=True))
        starts = set(turn.epoch_starts)
        first.extend(steps[index] for index in starts)
        others = [step for index, step in enumerate(steps) if index not in starts and step[1] == batch_factor]
        counted = others or steps
        inner.append(math.fsum(seconds for seconds, _ in counted) / math.fsum(own_steps for _, own_steps in counted))
    typical = statistics.median(inner)
    restarts = [seconds - typical * own_steps for seconds, own_steps in first]
    restart = max(0.0, statistics.median(restarts)) if restarts else 0.0
    return tuple(seconds + restart / steps_per_epoch for seconds in inner)


def settled_step_seconds(turns: Sequence[Turn], steps_per_epoch: int) -> float:
    """Return the median over turns of what a step costs a whole run, in seconds.

    Not the mean: a few disturbed turns can more than double it.
    """
    return statistics.median(step_seconds_of_turns(turns, steps_per_epoch))
