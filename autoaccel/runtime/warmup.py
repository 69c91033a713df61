"""Warm-up that is found, not assumed: steps are taken until their time has settled."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

from autoaccel.records.messages import LONG_STEP_SECONDS
from autoaccel.runtime.accelerator import synchronize
from autoaccel.runtime.paced import Inspectable, Paced
from autoaccel.runtime.ranks import agreed
from autoaccel.runtime.steps import Stretch

PROFILE_WARMUP_SECONDS = 2.0
"""Of a profile at most: shares settle sooner than speed-ups can be told."""

_WINDOW = 3  # steps compared with as many before them; a stall of one step does not move their median
_CHANGE = 0.15  # of the step time; below the noise between two windows, on two shared cores, nothing can be told
_UNLIKE = 0.05  # of the settled step time; less is in the noise of long steps, too


class WarmedUp(NamedTuple):
    """What the warm-up took."""

    step_seconds: list[float]  # of each of its steps, in order
    late_seconds: float  # that the steps before the model shrinks would take longer, beyond these
    settled_seconds: float  # that a step took in the end
    settling_steps: int  # after the first of the model that is measured, until their time had settled
    surplus_steps: int  # after those, only to see that it had


def burst_steps(paced: Paced) -> int:
    """Return how many steps show what loader workers deliver at once: as many as there are workers, at most three.

    Where workers are what a step waits for, some steps wait for nothing and one waits for all.
    """
    return min(max(1, int(paced.applied.settings.get("loader.workers", 0))), _WINDOW)


def growing_steps(paced: Paced) -> int:
    """Return how many steps after the first still ask the system for memory, where freed memory is kept: one.

    The first step's gradients and optimizer state stay in use, so that the second finds too little freed memory. Step
    times do not show it: the second step of a BERT classifier took as long as later ones, within their scatter, but had
    31,000 page faults, as many as a step without `memory.keep_freed`; the third had none.
    """
    return int(bool(paced.applied.settings.get("memory.keep_freed", False)))


def window_of(step_seconds: float, burst: int = 1) -> int:
    """Return how many steps tell how long one takes: of long ones no more than loader workers deliver at once."""
    return burst if step_seconds >= LONG_STEP_SECONDS else _WINDOW


def has_settled(step_seconds: Sequence[float], burst: int = 1) -> bool:
    """Whether the last steps took as long as those before them, within 15 %."""
    window = window_of(step_seconds[-1], burst) if step_seconds else _WINDOW
    if len(step_seconds) < 2 * window:
        return False
    late = statistics.median(step_seconds[-window:])
    early = statistics.median(step_seconds[-2 * window : -window])
    return abs(late - early) <= _CHANGE * early


def settling_steps(step_seconds: Sequence[float], burst: int = 1) -> int:
    """Return after how many of these steps their time had settled: after the last that was unlike the end, by 5 %.

    Slower ones were not warm; faster ones had batches that loader workers had prepared during a slow one. Where steps
    scatter by more than that, nearly all of them count: then who repeats the warm-up makes it as long as this one.
    """
    if not step_seconds:
        return 0
    settled = statistics.median(step_seconds[-window_of(step_seconds[-1], burst) :])
    unlike = [abs(seconds - settled) > _UNLIKE * settled for seconds in step_seconds]
    return max((number for number, found in enumerate(unlike, start=1) if found), default=0)


def warming_up(
    paced: Paced, max_seconds: float, training_steps: int | None = None, known_steps: int | None = None
) -> Stretch[WarmedUp]:
    """Take steps until their time has settled.

    The first step, the steps before the model shrinks and, where the model is compiled, an incomplete step such as
    ends an epoch come first, however long they take: what a whole run would pay for. After them, at most
    `max_seconds` are spent. Of a training that ends after `training_steps` these are the first, in the order of
    its data and at most half of them, by when its model has shrunk; where nothing is trained, a few steps of the
    larger model stand for all. Where another process has found out how many steps it takes to settle, no more than
    these `known_steps` are taken.
    """
    burst, growing = burst_steps(paced), growing_steps(paced)
    inspectable = paced if isinstance(paced, Inspectable) else None
    larger = (yield from _before_shrinking(inspectable, training_steps)) if inspectable else []
    seconds = [*larger, (yield).seconds]
    if inspectable and training_steps is None and paced.applied.compiles:
        seconds += _seconds_of_incomplete_step(inspectable)
    settled_from = len(seconds)
    # What loader workers prepared during the first step says nothing about how fast they are.
    prepared = 2 * int(paced.applied.settings.get("loader.workers", 0))
    start = time.perf_counter()
    limit = math.inf if training_steps is None else training_steps // 2

    def needs_more() -> bool:
        taken = seconds[settled_from:]
        if time.perf_counter() - start >= max_seconds:
            return False
        if len(taken) < growing:
            return True
        if known_steps is not None:
            return len(taken) < known_steps
        if not taken or (prepared and len(taken) < prepared + window_of(taken[-1], burst)):
            return True
        # A long first step that takes as long as the second was warm.
        return not has_settled(seconds if taken[-1] >= LONG_STEP_SECONDS else taken, burst)

    while paced.steps_done < limit and agreed(needs_more()):
        seconds.append((yield).seconds)
    taken = seconds[settled_from:]
    settled = statistics.median(taken[-window_of(taken[-1], burst) :]) if taken else seconds[-1]
    needed = max(settling_steps(taken, burst), min(growing, len(taken)))
    late_seconds = 0.0
    if inspectable and larger and training_steps is None:
        late_seconds = _late_seconds(inspectable, larger, taken or seconds[-1:])
    return WarmedUp(seconds, late_seconds, settled, needed, len(taken) - needed)


def _before_shrinking(loop: Inspectable, training_steps: int | None) -> Stretch[list[float]]:
    """Take the steps of the model as it was built, if it will shrink; return how long each took."""
    if math.isinf(loop.shrinks_at):
        return []
    if training_steps is None:
        loop.shrinks_at = min(loop.shrinks_at, 2 * _WINDOW)
    else:
        loop.shrinks_at = min(loop.shrinks_at, training_steps // 2 - 1)
    seconds: list[float] = []
    while loop.steps_done < loop.shrinks_at:
        seconds.append((yield).seconds)
        if training_steps is None and agreed(has_settled(seconds)):
            loop.shrinks_at = loop.steps_done  # they stand for all
    return seconds


def _late_seconds(loop: Inspectable, larger: Sequence[float], smaller: Sequence[float]) -> float:
    """Return what the steps before the model shrinks would take longer, beyond those that stood for them."""
    missing = (loop.applied.shrinks_after or 0) * loop.steps_per_epoch - len(larger)
    return max(0, missing) * max(0.0, statistics.median(larger) - statistics.median(smaller))


def _seconds_of_incomplete_step(loop: Inspectable) -> list[float]:
    """Make an incomplete step; return how long it took, or nothing if all steps are alike."""
    if not (rest := loop.last_step()):
        return []
    start = time.perf_counter()
    for batch, piece in rest:  # all parts: half a step would let all later ones begin in the middle
        loop.step_on(batch, piece)
    synchronize(loop.device)
    return [time.perf_counter() - start]
