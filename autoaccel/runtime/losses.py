"""The losses of a training's steps: of those that an accelerator computes the program does not wait for the numbers."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

_DIVERGED_STEPS = 3
"""In a row whose losses are not finite: a single batch may have such a loss under anybody's settings."""

_Part: TypeAlias = float | torch.Tensor
"""The loss of a part of a step; a tensor, of one element, where the program would have to wait for its number."""


def mean(numbers: Sequence[float]) -> float:
    """Return their mean; not a number where infinities of both signs are among them, which statistics.fmean refuses."""
    return sum(numbers) / len(numbers)


class StepLosses:
    """The losses of the parts of each step, as far as somebody will ask for them."""

    def __init__(self, reduce: Callable[[Sequence[float]], float], last: float = math.nan) -> None:
        """Begin before the first step.

        Args:
            reduce: Makes the loss of a step from those of its parts, one at least.
            last: The loss of the step before, if there was one.
        """
        self.kept_after: float = math.inf
        """After so many steps the losses of all later ones are kept, beside that of the first."""
        self._reduce = reduce
        self._parts: list[_Part] = []  # of the step that is being made
        self._last: list[_Part] = [last]
        self._latest: deque[list[_Part]] = deque(maxlen=_DIVERGED_STEPS)
        self._kept: list[list[_Part]] = []

    def add(self, loss: torch.Tensor) -> None:
        """Take in the loss of a part of the step, a tensor of one element.

        This happens within the training's own steps, so what can wait until somebody asks for the loss does.
        """
        # On a CPU the number is there, and costs the step less than a copy. Elsewhere the program would wait for it,
        # as it would for that of a subclass whose parts lie on several ranks; a copy, as a CUDA graph writes over its
        # outputs.
        is_known = type(loss) is torch.Tensor and loss.is_cpu
        self._parts.append(loss.item() if is_known else loss.detach().clone())

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
            self._kept.append(self._last)

    @property
    def last(self) -> float:
        """The loss of the last step; the program waits for it."""
        return self._loss_of(self._last)

    @property
    def have_diverged(self) -> bool:
        """Whether none of the last steps had a finite loss; the program waits for them."""
        return bool(self._latest) and not any(all(map(math.isfinite, map(float, parts))) for parts in self._latest)

    def kept(self) -> tuple[float, float]:
        """Return the loss of the first step and the mean of the later ones that were kept; not a number if none was.

        The program waits for them.
        """
        if not self._kept:
            return math.nan, math.nan
        first, *later = map(self._loss_of, self._kept)
        return first, mean(later or [first])

    def _loss_of(self, parts: Sequence[_Part]) -> float:
        return self._reduce([float(part) for part in parts])
