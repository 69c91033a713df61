"""A turn: the steps that are timed between two pauses of the process."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from autoaccel.records.messages import Failure, GiveTurn, Turn
from autoaccel.runtime.accelerator import peak_bytes, synchronize
from autoaccel.runtime.ineffective import no_longer_works
from autoaccel.runtime.paced import Paced
from autoaccel.runtime.ranks import agreed, sum_of_all
from autoaccel.runtime.steps import Step, Stretch
from autoaccel.runtime.thread_time import thread_system_seconds
from autoaccel.runtime.warmup import burst_steps

_MAX_UNUSUAL = 2  # steps that a turn is made longer for: the last of an epoch and the first of the next


def taking_turn(paced: Paced, turn: GiveTurn, max_steps: int | None) -> Stretch[Turn | Failure]:
    """Take the steps of one turn, and see that every setting still has its effect after them.

    Args:
        paced: The training.
        turn: How long it is.
        max_steps: After so many steps of the training it takes no more; None for no such limit.
    """
    limit = math.inf if max_steps is None else max_steps
    before = paced.steps_done
    for _ in range(turn.uncounted_steps):
        if paced.steps_done < limit:
            yield
    min_steps = max(turn.min_steps, burst_steps(paced))
    steps: list[Step] = []
    start, system = time.perf_counter(), thread_system_seconds()
    while paced.steps_done < limit and agreed(
        time.perf_counter() - start < turn.seconds or _lacks_steps(steps, min_steps)
    ):
        steps.append((yield))
    # Once, not after each step: the program runs ahead of an accelerator, as it does in the user's own loop.
    synchronize(paced.device)
    shares = tuple(step.share for step in steps)
    done = Turn(
        step_seconds=tuple(step.seconds for step in steps),
        epoch_starts=tuple(index for index, step in enumerate(steps) if step.begins_epoch),
        step_shares=shares if any(share != 1.0 for share in shares) else (),
        peak_bytes=int(sum_of_all(peak_bytes(paced.device))),
        diverged=paced.has_diverged,
        steps_done=paced.steps_done,
        system_seconds=max(0.0, thread_system_seconds() - system),
    )
    if paced.steps_done == before:
        return done  # the training is over: a script whose steps all were seen calls nothing any more
    return no_longer_works(paced) or done


def _lacks_steps(steps: Sequence[Step], min_steps: int) -> bool:
    """Whether a turn needs more steps: so many in all, and one that neither begins an epoch nor is incomplete.

    Else what a single step says that has waited for its epoch's loader would stand for all.
    """
    usual = any(not step.begins_epoch and step.share == 1.0 for step in steps)
    return len(steps) < min_steps or (not usual and len(steps) < min_steps + _MAX_UNUSUAL)
