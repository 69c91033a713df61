"""A step that a loop has made. Its time is asked for later: an accelerator ends it behind the program."""

from __future__ import annotations

from autoaccel.runtime.accelerator import Mark, seconds_between


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
