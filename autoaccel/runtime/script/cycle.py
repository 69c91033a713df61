"""What makes a step of a script, and which gaps between two steps are no training. Decisions only; no hook is here."""

from __future__ import annotations

import collections
from collections.abc import Hashable, Sequence

from autoaccel.errors import BadRequestError


class TrainingOverError(BaseException):
    """Another training begins, of an optimizer that was not seen: the script is to begin anew.

    It goes through the script, whose own handlers of an Exception are not meant.
    """


def period_of(calls: Sequence[int]) -> tuple[int, ...] | None:
    """Return the shortest sequence that, repeated, gives all these calls; None if none was seen twice.

    A generator that is updated after its critic is (0, 1); after five updates of it (0, 0, 0, 0, 0, 1). The last
    repetition may be incomplete.

    Args:
        calls: Which optimizer made an update, in order.
    """
    for length in range(1, len(calls) // 2 + 1):
        if all(calls[place] == calls[place - length] for place in range(length, len(calls))):
            return tuple(calls[:length])
    return None


def last_training(calls: Sequence[int], at_least: int = 1) -> int:
    """Return at which call the last training begins, whose optimizers are all others than those before; else 0.

    Args:
        calls: Which optimizer made an update, in order.
        at_least: So many calls of other optimizers make a training.
    """
    for place in range(len(calls) - at_least, 0, -1):
        if set(calls[:place]).isdisjoint(calls[place:]):
            return place
    return 0


class Cycle:
    """Counts the updates that make a step."""

    def __init__(self, period: tuple[int, ...]) -> None:
        """Begin with no update made.

        Args:
            period: Whose updates make a step, in order.
        """
        self._period = period
        self.first = min(period)
        """Those of lower numbers are of a training that ends before this one begins."""
        self.last = max(period)
        """Those of higher numbers are of a training that begins once this one has ended, or were never seen."""
        self._place = 0

    def is_complete_after(self, optimizer: int) -> bool:
        """Take in an update of this optimizer; return whether a step is complete.

        Raises:
            BadRequestError: If another one was to be next.
        """
        expected = self._period[self._place]
        if optimizer != expected:
            raise BadRequestError(
                f"the optimizers must be called in the order that was seen in the first steps, "
                f"{_order(self._period)}, but number {optimizer + 1} was called instead of number {expected + 1}."
            )
        self._place = (self._place + 1) % len(self._period)
        return self._place == 0

    def begin_anew(self) -> None:
        """The script was started again: the updates of a step that it had begun no longer count."""
        self._place = 0


def _order(period: Sequence[int]) -> str:
    return ", ".join(str(optimizer + 1) for optimizer in period)


_MAX_IN_A_ROW = 4
"""Gaps with the same thing in them. What is done beside every step, such as a checkpoint, belongs to it."""


class Gap:
    """What has happened since the last step: whether the time until the end of the next one is a step's."""

    def __init__(self) -> None:
        self._others: set[Hashable] = set()
        self._before_epoch: set[Hashable] = set()
        self._in_a_row: collections.Counter[Hashable] = collections.Counter()
        self._begins_epoch = False

    def evaluated(self, how: Hashable) -> None:
        """Something else was done: an evaluation, a checkpoint, a new start of the script.

        Args:
            how: What is done beside every step is told by this from what is done now and then.
        """
        self._others.add(how)

    @property
    def _is_training(self) -> bool:
        return not self._others or all(self._in_a_row[how] >= _MAX_IN_A_ROW for how in self._others)

    def began_epoch(self) -> bool:
        """The loader that feeds the training begins anew; return whether the step's clock must start from here.

        It must after an evaluation: what follows is training again.
        """
        restarts = not self._is_training
        self._before_epoch |= self._others
        self._others.clear()
        self._begins_epoch = True
        return restarts

    def end(self) -> tuple[bool, bool]:
        """Begin the next gap; return whether this one was a step's, and whether it began an epoch."""
        begins_epoch, self._begins_epoch = self._begins_epoch, False
        if not (self._others or self._before_epoch or self._in_a_row):  # as after most steps
            return True, begins_epoch
        is_training = self._is_training
        happened = self._others | self._before_epoch
        self._in_a_row = collections.Counter({how: self._in_a_row[how] + 1 for how in happened})
        self._others, self._before_epoch = set(), set()
        return is_training, begins_epoch
