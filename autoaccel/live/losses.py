"""The losses of a training under settings that round, against those before: what the run's own scatter explains."""

from __future__ import annotations

import math
import statistics
from collections import deque

BEFORE, WINDOW = 64, 16
"""Losses before a change, and those in a row whose mean must not lie above all of them: so many agree by chance only
where a training itself turns to something else. Guesses; the planted harms of tests/live are found with them."""
WATCHED_STEPS = 1000
"""After a change. Later a loss rises for the training's own reasons rather than for it; that it is finite is looked
after to the end."""


class Losses:
    """Tells whether settings that round have harmed a training."""

    def __init__(self) -> None:
        """Begin before any step."""
        self._before: deque[float] = deque(maxlen=BEFORE)
        self._since: deque[float] = deque(maxlen=WINDOW)
        self._steps = 0

    def change(self) -> None:
        """Settings that round are in use from now on."""
        self._since.clear()
        self._steps = 0

    def add(self, loss: float, rounds: bool) -> str:
        """Take in the loss of a step; return what harm it shows, in words, or nothing.

        Args:
            loss: Not a number if the step has none.
            rounds: Whether the step was made under settings that round.
        """
        if not rounds:
            if self._before or math.isfinite(loss):  # the first step is half over when somebody begins to hear
                self._before.append(loss)
            self._since.clear()
            return ""
        self._steps += 1
        known = self._before or self._since  # a run that begins with such settings has none before them
        if not all(map(math.isfinite, self._before)) or (not known and not math.isfinite(loss)):
            return ""  # it has none, or diverges by itself
        if not math.isfinite(loss):
            return "the loss is not finite"
        self._since.append(loss)
        if len(self._since) < WINDOW or len(self._before) < BEFORE or self._steps > WATCHED_STEPS:
            return ""
        mean, highest = statistics.fmean(self._since), max(self._before)
        if mean <= highest:
            return ""
        return f"the loss rose to {mean:.4g}, above the {highest:.4g} that was the highest of {BEFORE} steps before"
