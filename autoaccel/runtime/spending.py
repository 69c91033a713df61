"""What looking at a training may cost: seconds, of which steps that take seconds leave room for few."""

from __future__ import annotations

import math
import time

from autoaccel.runtime.ranks import agreed


class Spending:
    """Time that may still be spent on looking at a training, and what was left out for want of it.

    What is worth most asks first. Asked for are the fewest steps that a measurement needs, none for what is made in any
    case; what it then takes, its steps and all else, is seen on the clock.
    """

    def __init__(self, step_seconds: float = 0.0, max_seconds: float = math.inf) -> None:
        """Begin.

        Args:
            step_seconds: What a step takes, about.
            max_seconds: That all measurements together may take.
        """
        self.step_seconds = step_seconds
        self.left_out: list[str] = []
        self._until = time.perf_counter() + max_seconds

    @property
    def left_seconds(self) -> float:
        """How long measuring may still take; below zero once it took too long."""
        return self._until - time.perf_counter()

    @property
    def affordable_steps(self) -> float:
        """How many steps may still be made, rounded down; infinite where nobody counts."""
        if math.isinf(self._until) or self.step_seconds <= 0:
            return math.inf
        return max(0, math.floor(self.left_seconds / self.step_seconds + 1e-9))

    def affords(self, what: str, steps: float = 0.0, seconds: float = 0.0) -> bool:
        """Whether there is time for so many steps and so many seconds beside them; else this is left out.

        All ranks must ask.
        """
        return self.choose(what, (steps,), seconds) is not None

    def choose(self, what: str, steps: tuple[float, ...], seconds: float = 0.0) -> float | None:
        """Return the first of these numbers of steps for which there is time; None, and left out, if for none.

        All ranks must ask.
        """
        for number in steps:
            if agreed(number * self.step_seconds + seconds <= max(0.0, self.left_seconds) + 1e-9):
                return number
        self.left_out.append(what)
        return None
