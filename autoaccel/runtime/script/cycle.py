"""What makes a step of a script, and which gaps between two steps are no training. Decisions only; no hook is here."""

from __future__ import annotations

from collections.abc import Sequence


class BrokenPeriodError(Exception):
    """Optimizers were not called in the order in which they were seen to be."""


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


class Cycle:
    """Counts the updates that make a step."""

    def __init__(self, period: tuple[int, ...]) -> None:
        """Begin with no update made.

        Args:
            period: Whose updates make a step, in order.
        """
        self._period = period
        self._place = 0

    def is_complete_after(self, optimizer: int) -> bool:
        """Take in an update of this optimizer; return whether a step is complete.

        Raises:
            BrokenPeriodError: If another one was to be next.
        """
        expected = self._period[self._place]
        if optimizer != expected:
            raise BrokenPeriodError(
                f"the optimizers must be called in the order that was seen in the first steps, "
                f"{_order(self._period)}, but number {optimizer + 1} was called instead of number {expected + 1}"
            )
        self._place = (self._place + 1) % len(self._period)
        return self._place == 0

    def begin_anew(self) -> None:
        """The script was started again: the updates of a step that it had begun no longer count."""
        self._place = 0


def _order(period: Sequence[int]) -> str:
    return ", ".join(str(optimizer + 1) for optimizer in period)


_MAX_IN_A_ROW = 4
"""Gaps with something else in them. What is done beside every step, such as a checkpoint, belongs to it."""


class Gap:
    """What has happened since the last step: whether the time until the end of the next one is a step's."""

    def __init__(self) -> None:
        self._is_training = True
        self._in_a_row = 0
        self._begins_epoch = False

    def evaluated(self) -> None:
        """Something else was done: an evaluation, a checkpoint, a new start of the script."""
        self._is_training = False

    def began_epoch(self) -> bool:
        """The loader that feeds the training begins anew; return whether the step's clock must start from here.

        It must after an evaluation: what follows is training again.
        """
        restarts = not self._is_training
        self._is_training = self._begins_epoch = True
        return restarts

    def end(self) -> tuple[bool, bool]:
        """Begin the next gap; return whether this one was a step's, and whether it began an epoch."""
        self._in_a_row = 0 if self._is_training else self._in_a_row + 1
        found = self._is_training or self._in_a_row > _MAX_IN_A_ROW, self._begins_epoch
        self._is_training, self._begins_epoch = True, False
        return found
