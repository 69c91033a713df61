"""The trainings of one script: each is looked at, as far as the one before it ends soon, and the longest is told of."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from autoaccel.records.script import OtherTraining
from autoaccel.runtime.script.facts import planned_steps
from autoaccel.runtime.script.planned import EnclosingLoop
from autoaccel.runtime.script.seen import Seen
from autoaccel.runtime.script.trainers import TrainerPlan

_SOON_SECONDS = 10.0  # until the planned end of a training: so long is looked whether another one follows
_REST_SECONDS = 5.0  # after that; an evaluation may come first


class SeenTraining(NamedTuple):
    """A training of which enough was seen."""

    seen: Seen
    start: int  # the update with which it began, of all that the script made
    earlier: Sequence[int]  # updates of other optimizers that came before it, too few to be looked at


class Trainings:
    """Keeps each training that was seen, until what follows is another one, or too far away."""

    def __init__(self, tell: Callable[[SeenTraining, tuple[OtherTraining, ...]], None], waits: bool = True) -> None:
        """Begin without any.

        Args:
            tell: Called with the longest, and with what is known of the others; it does not return, unless nothing
                is waited for.
            waits: Whether the first is told of only once it is known whether another follows soon.
        """
        self._may_wait = waits
        self.found: list[SeenTraining] = []
        self._tell = tell
        self._waits = 0
        self._lock = threading.Lock()

    def add(self, training: SeenTraining) -> None:
        """Keep a training; tell of the longest, unless its end is near."""
        self.found.append(training)
        self._wait(training.seen.steps)

    def begins(self, loops: list[EnclosingLoop]) -> None:
        """After the last training was found, an optimizer that is new makes its first update: wait for what it becomes.

        Args:
            loops: Around it.
        """
        self._waits += 1
        seen = self.found[-1].seen
        if loops == seen.loops[seen.period[0]]:  # the next round of the same: a fold of a cross-validation
            self.end()

    def goes_on(self, updates: int) -> bool:
        """Whether the last training makes more steps than it plans.

        Args:
            updates: That the script has made.
        """
        if not self.found:
            return False
        last = self.found[-1]
        steps = planned_steps(last.seen)[0]
        return steps is not None and updates - last.start == steps * len(last.seen.period)

    def read_on(self, loops: list[EnclosingLoop], follows: str) -> None:
        """Add what the loops plan in which the same optimizer goes on: it has searched for its learning rate, say.

        Args:
            loops: Around its update.
            follows: Where another training follows these.
        """
        seen = self.found[-1].seen
        made, words = planned_steps(seen)
        number = seen.period[0]
        seen.plans[number], seen.loops[number], seen.follows[number] = None, loops, follows
        more, more_words = planned_steps(seen)
        if made is not None and more is not None:
            seen.plans[number] = TrainerPlan(made + more, f"{words}; then {more_words}")
        self._wait(made or 0)

    def end(self) -> None:
        """Tell of the longest."""
        self._lock.acquire()  # for good: it is told of once
        chosen = max(self.found, key=_seconds)
        others = [_earlier(self.found[0])] if self.found[0].earlier else []
        for training in self.found:
            if training is not chosen:
                steps = planned_steps(training.seen)[0]
                others.append(_other(training, training.seen.period, steps, training.start < chosen.start))
        where = chosen.seen.follows[chosen.seen.period[0]]
        if where and chosen is self.found[-1]:
            others.append(OtherTraining(False, "", None, where))
        self._tell(chosen, tuple(others))

    def _wait(self, made: int) -> None:
        """Wait for what follows the last training if its end is near; else tell of the longest.

        Args:
            made: Steps of it.
        """
        seen = self.found[-1].seen
        steps = planned_steps(seen)[0]
        seconds = math.inf if steps is None else max(0, steps - made) * seen.step_seconds
        if seconds > _SOON_SECONDS or not self._may_wait:
            self.end()
            return  # to a training that goes on
        self._waits += 1
        patience = threading.Timer(2 * seconds + _REST_SECONDS, self._has_waited, (self._waits,))
        patience.daemon = True
        patience.start()

    def _has_waited(self, waits: int) -> None:
        if self._waits == waits:
            self.end()


def _seconds(training: SeenTraining) -> float:
    steps = planned_steps(training.seen)[0]
    return math.inf if steps is None else steps * training.seen.step_seconds


def _earlier(training: SeenTraining) -> OtherTraining:
    numbers = sorted(set(training.earlier))
    return _other(training, numbers, len(training.earlier) // len(numbers), comes_first=True)


def _other(training: SeenTraining, numbers: Sequence[int], steps: int | None, comes_first: bool) -> OtherTraining:
    seen = training.seen
    optimizers = [seen.optimizers[number] for number in sorted(set(numbers))]
    names = ", ".join(type(one).__name__ for one in optimizers)
    return OtherTraining(comes_first, names, steps, seen.origins.where(optimizers[0]))
