"""Clock: how much of the budget is spent."""

from __future__ import annotations

import time

from autoaccel.errors import BudgetSpentError


class Clock:
    """Counts from the start of a run; time that an earlier part of the run took counts too."""

    def __init__(self, budget_seconds: float, spent_seconds: float = 0.0) -> None:
        self.budget_seconds = budget_seconds
        self._start = time.perf_counter() - spent_seconds

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start

    @property
    def left(self) -> float:
        """Seconds until the budget is spent, never below zero."""
        return max(0.0, self.budget_seconds - self.spent)

    def timeout(self, what: str, share: float = 1.0, keep: float = 0.0) -> float:
        """Return how long a process may take: at most this share of the budget, leaving `keep` seconds.

        Raises:
            BudgetSpentError: If no time is left for it.
        """
        seconds = min(share * self.budget_seconds, self.left - keep)
        if seconds <= 0:
            raise BudgetSpentError(f"the budget was spent before {what}")
        return seconds
