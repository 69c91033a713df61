"""The losses of a training under settings that round, against those before: what the run's own scatter explains."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import deque
from typing import NamedTuple

BEFORE, WINDOW = 64, 16
"""Losses in a row, and the last ones after them, whose mean must not lie above all of the former, nor above all of any
others so many in a row. In two million losses that scatter normally around one value, simulated, eleven such rises came
by chance; each costs a comparison of updates. The lengths are guesses."""
SOON = 64
"""Steps after a change within which a rise of the loss is taken to be its doing, whatever updates say. A guess."""
RENEWED_STEPS = 1000  # after which the state that a training could go back to is kept anew


class LossSays(NamedTuple):
    """What the loss of a step says of the settings that it was made under, in words; nothing where all is well."""

    harm: str = ""
    doubt: str = ""
    """It rose: whether by these settings or by the training itself, updates must show."""


class Losses:
    """Tells whether settings that round have harmed a training."""

    def __init__(self) -> None:
        """Begin before any step."""
        self._before: deque[float] = deque(maxlen=BEFORE)  # under settings that do not round
        self._since: deque[float] = deque(maxlen=WINDOW)
        self._steps = 0  # since the change
        self._last: deque[float] = deque(maxlen=BEFORE + WINDOW)
        self._lowest = math.inf  # the highest of so many in a row, where it was lowest
        self._quiet, self._pause = 0, BEFORE  # steps in which no doubt is told: now, and after the next one

    def change(self) -> None:
        """Settings that round are in use from now on."""
        self._since.clear()
        self._steps = 0

    def add(self, loss: float, rounds: bool) -> LossSays:
        """Take in the loss of a step; return what it says.

        Args:
            loss: Not a number if the step has none.
            rounds: Whether the step was made under settings that round.
        """
        is_soon = len(self._before) == BEFORE and self._steps < SOON
        highest = max(self._before) if is_soon else self._lowest
        self._keep(loss)
        if not rounds:
            if self._before or math.isfinite(loss):  # the first step is half over when somebody begins to hear
                self._before.append(loss)
            self._since.clear()
            return LossSays()
        self._steps += 1
        self._quiet -= self._quiet > 0
        known = self._before or self._since  # a run that begins with such settings has none before them
        if not all(map(math.isfinite, self._before)) or (not known and not math.isfinite(loss)):
            return LossSays()  # it has none, or diverges by itself
        if not math.isfinite(loss):
            return LossSays(harm="the loss is not finite")
        self._since.append(loss)
        mean = statistics.fmean(self._since)
        if len(self._since) < WINDOW or mean <= highest:
            return LossSays()
        rose = f"the loss rose to {mean:.4g}, above the {highest:.4g} that was the highest of {BEFORE} steps before"
        return LossSays(harm=rose) if is_soon else LossSays(doubt=self._doubt(rose))

    def _keep(self, loss: float) -> None:
        self._last.append(loss)
        if len(self._last) == BEFORE + WINDOW and not math.isnan(highest := max(itertools.islice(self._last, BEFORE))):
            self._lowest = min(self._lowest, highest)

    def _doubt(self, said: str) -> str:
        """Return what is said, or nothing: of a training that turns to something else again and again, less and less.

        From then on, losses are compared with those that follow.
        """
        if self._quiet:
            return ""
        self._quiet, self._pause = self._pause, 2 * self._pause
        self._lowest = math.inf
        self._last.clear()
        return said
