"""The losses of a training's steps, kept as tensors: the program does not wait for their numbers."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

import torch

_DIVERGED_STEPS = 3
"""In a row whose losses are not finite: a single batch may have such a loss under anybody's settings."""


class StepLosses:
    """The losses of the parts of each step, as far as somebody will ask for them."""

    def __init__(self, reduce: Callable[[torch.Tensor], torch.Tensor], last: float = math.nan) -> None:
        """Begin before the first step.

        Args:
            reduce: Makes the loss of a step, of no dimension, from those of its parts, of one.
            last: The loss of the step before, if there was one.
        """
        self.kept_after: float = math.inf
        """After so many steps the losses of all later ones are kept, beside that of the first."""
        self._reduce = reduce
        self._parts: list[torch.Tensor] = []  # of the step that is being made
        self._last = [torch.tensor(last)]
        self._latest: deque[list[torch.Tensor]] = deque(maxlen=_DIVERGED_STEPS)
        self._kept: list[torch.Tensor] = []

    def add(self, loss: torch.Tensor) -> None:
        """Take in the loss of a part of the step, a tensor of one element.

        This happens within the training's own steps, so what can wait until somebody asks for the loss does.
        """
        # A copy, because a CUDA graph writes over its outputs.
        self._parts.append(loss.detach().clone())

    def forget(self) -> None:
        """Forget the parts that were taken in since the last step: they were of none."""
        self._parts = []

    def end_step(self, steps_done: int) -> None:
        """Take in that a step has ended, after so many; it may have no loss that is known."""
        if not self._parts:
            return
        self._last, self._parts = self._parts, []
        self._latest.append(self._last)
        if steps_done == 1 or steps_done > self.kept_after:
            self._kept.append(self._reduce(_together(self._last)))

    @property
    def last(self) -> float:
        """The loss of the last step; the program waits for it."""
        return float(self._reduce(_together(self._last)))

    @property
    def have_diverged(self) -> bool:
        """Whether none of the last steps had a finite loss; the program waits for them."""
        return bool(self._latest) and not any(bool(_together(parts).isfinite().all()) for parts in self._latest)

    def kept(self) -> tuple[float, float]:
        """Return the loss of the first step and the mean of the later ones that were kept; not a number if none was."""
        if not self._kept:
            return math.nan, math.nan
        first, *later = torch.stack(self._kept).tolist()
        later = later or [first]
        return first, math.fsum(later) / len(later)


def _together(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the losses of a step's parts, of one element each, as a tensor of one dimension, of float32 at least."""
    stacked = torch.stack([part.reshape(()) for part in parts])
    return stacked.float() if stacked.dtype.itemsize < 4 else stacked
