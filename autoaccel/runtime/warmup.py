"""Warm-up that is found, not assumed: steps are made until their time has settled."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

from autoaccel.runtime import ranks
from autoaccel.runtime.accelerator import synchronize
from autoaccel.runtime.loop import Loop

_WINDOW = 3  # steps compared with as many before them; a stall of one step does not move their median
_CHANGE = 0.15  # of the step time; below the noise between two windows, on two shared cores, nothing can be told


class WarmedUp(NamedTuple):
    """What the warm-up took."""

    step_seconds: list[float]  # of each of its steps, in order
    late_seconds: float  # that the steps before the model shrinks would take longer, beyond these


def has_settled(step_seconds: Sequence[float]) -> bool:
    """Whether the last steps took as long as those before them, within 15 %."""
    if len(step_seconds) < 2 * _WINDOW:
        return False
    late = statistics.median(step_seconds[-_WINDOW:])
    early = statistics.median(step_seconds[-2 * _WINDOW : -_WINDOW])
    return abs(late - early) <= _CHANGE * early


def warm_up(loop: Loop, most_seconds: float, training_steps: int | None = None) -> WarmedUp:
    """Make steps until their time has settled.

    The first step, the steps before the model shrinks and, where the model is compiled, an incomplete step such as
    ends an epoch come first, however long they take: what a whole run would pay for. After them, at most
    `most_seconds` are spent. Of a training that ends after `training_steps` these are the first, in the order of
    its data and at most half of them, by when its model has shrunk; where nothing is trained, a few steps of the
    larger model stand for all.
    """
    larger = _steps_before_shrinking(loop, training_steps)
    seconds = [*larger, loop.step().seconds]
    if training_steps is None and loop.applied.compiles and (rest := loop.last_step()):
        start = time.perf_counter()
        for batch, piece in rest:  # all parts: half a step would let all later ones begin in the middle
            loop.step_on(batch, piece)
        synchronize(loop.device)
        seconds.append(time.perf_counter() - start)
    settled_from = len(seconds)
    # What loader workers prepared during the first step says nothing about how fast they are.
    prepared = 2 * int(loop.applied.settings.get("loader.workers", 0))
    start = time.perf_counter()
    most = math.inf if training_steps is None else training_steps // 2

    def goes_on() -> bool:
        settled = len(seconds) >= settled_from + prepared and has_settled(seconds[settled_from:])
        return time.perf_counter() - start < most_seconds and not settled

    while loop.steps_done < most and ranks.follow(goes_on()):
        seconds.append(loop.step().seconds)
    if training_steps is not None or not larger:
        return WarmedUp(seconds, 0.0)
    later = statistics.median(seconds[settled_from:] or seconds[-1:])
    missing = (loop.applied.shrinks_after or 0) * loop.steps_per_epoch - len(larger)
    return WarmedUp(seconds, max(0, missing) * max(0.0, statistics.median(larger) - later))


def _steps_before_shrinking(loop: Loop, training_steps: int | None) -> list[float]:
    """Make the steps of the model as it was built, if it will shrink; return how long each took."""
    if math.isinf(loop.shrinks_at):
        return []
    if training_steps is None:
        loop.shrinks_at = min(loop.shrinks_at, 2 * _WINDOW)
    else:
        loop.shrinks_at = min(loop.shrinks_at, training_steps // 2 - 1)
    seconds = []
    while loop.steps_done < loop.shrinks_at:
        seconds.append(loop.step().seconds)
    return seconds
