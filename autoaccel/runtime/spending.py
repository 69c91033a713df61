"""What looking at a training may cost: counted in its steps, because these may take seconds."""

from __future__ import annotations

import math

from autoaccel.runtime import ranks


class Spending:
    """Steps that may still be made to look at a training, and what was left out for want of them.

    What is worth most asks first. Counted are the fewest steps that a measurement needs; it may make more of them where
    they are short, in the time that it has.
    """

    def __init__(self, step_seconds: float = 0.0, most_seconds: float = math.inf) -> None:
        """Begin.

        Args:
            step_seconds: What a step takes, about.
            most_seconds: That all steps together may take.
        """
        self.step_seconds = step_seconds
        self.left_seconds = most_seconds
        self.left_out: list[str] = []

    @property
    def affordable_steps(self) -> float:
        """How many steps may still be made, rounded down; infinite where nobody counts."""
        if math.isinf(self.left_seconds) or self.step_seconds <= 0:
            return math.inf
        return max(0, math.floor(self.left_seconds / self.step_seconds + 1e-9))

    def spend(self, steps: float) -> None:
        """Count steps that are made in any case."""
        self.left_seconds -= steps * self.step_seconds

    def affords(self, what: str, steps: float) -> bool:
        """Whether so many steps may be made, which are then counted; else this is left out. All ranks must ask."""
        return self.choose(what, steps) > 0

    def choose(self, what: str, *steps: float) -> float:
        """Return the first of these numbers of steps that may be made, and count them; 0, and left out, if none may.

        All ranks must ask.
        """
        for number in steps:
            if ranks.follow(number * self.step_seconds <= self.left_seconds + 1e-9):
                self.spend(number)
                return number
        self.left_out.append(what)
        return 0.0
