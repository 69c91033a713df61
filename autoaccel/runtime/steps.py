"""A step that was made, and stretches of steps. Its time is asked for later, once an accelerator has ended it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

from autoaccel.runtime.accelerator import Mark, seconds_between

Result = TypeVar("Result")

_MAX_AHEAD = 4
"""Steps that the program may be ahead of an accelerator: enough for it never to wait for the program between steps. A
program that nothing holds back queues a thousand operators, and a turn would last as long as these take."""


class Step:
    """One optimizer step: how long it took, loader wait included, whether it began an epoch, and on how much."""

    def __init__(self, begin: Mark, end: Mark, begins_epoch: bool, share: float) -> None:
        self.begins_epoch = begins_epoch
        self.share = share
        """Of the samples of a whole step; of an epoch's last step it may be less than 1."""
        self._marks: tuple[Mark, Mark] | None = (begin, end)
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        """How long it took; on an accelerator the program waits for its end, so ask after as many steps as possible."""
        if self._marks is not None:
            self._seconds = seconds_between(*self._marks)
            self._marks = None
        return self._seconds


class Ahead:
    """Steps that an accelerator may not have ended yet: the program runs ahead of it by a few at most."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()

    def add(self, step: Step) -> None:
        """Take in a step that was made; wait for an earlier one if the program is too far ahead."""
        self._steps.append(step)
        if len(self._steps) > _MAX_AHEAD:
            _ = self._steps.popleft().seconds


Stretch: TypeAlias = Generator[None, Step, Result]
"""Steps with one purpose, such as a turn: it yields when it needs a step, is sent the step, and returns its result."""


def advance(stretch: Stretch[Result], step: Step | None) -> None:
    """Send a stretch the step that it needs, or None to begin it.

    Raises:
        StopIteration: With its result, if it needs no more.
    """
    if step is None:
        next(stretch)
    else:
        stretch.send(step)


def make_steps(stretch: Stretch[Result], step: Callable[[], Step]) -> Result:
    """Make the steps that a stretch needs; return its result."""
    made: Step | None = None
    while True:
        try:
            advance(stretch, made)
        except StopIteration as end:
            result: Result = end.value
            return result
        made = step()
