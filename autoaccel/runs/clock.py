"""BudgetClock: how much of the budget is spent. Stages: on what."""

from __future__ import annotations

import time
from typing import get_args

from autoaccel.errors import BudgetSpentError
from autoaccel.records.progress import StageName
from autoaccel.records.recipe import StageTimes
from autoaccel.runs.plan import Plan


class BudgetClock:
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


class Stages:
    """What each stage of a run is planned to take, and has taken."""

    def __init__(self) -> None:
        """Begin with nothing planned and nothing spent."""
        self.current: Plan | None = None
        """The plan that is followed; None before there is one."""
        self._planned: dict[StageName, float] = {}
        self._spent: dict[StageName, float] = {}
        self._now: StageName | None = None
        self._since = 0.0
        self._is_extended = False  # the search

    def begin(self, stage: StageName, at: float) -> None:
        """End the current stage, and begin or resume another.

        Args:
            stage: Which.
            at: Seconds since the start of the run.
        """
        if self._now is not None:
            self._spent[self._now] = self.spent(self._now, at)
        self._now, self._since = stage, at
        self._spent.setdefault(stage, 0.0)

    def count(self, stage: StageName, seconds: float) -> None:
        """Count what an earlier part of the run spent."""
        self._spent[stage] = self._spent.get(stage, 0.0) + seconds

    def follow(self, plan: Plan) -> None:
        """Follow this plan from now on; of a stage that has begun the first plan stays on record."""
        self.current = plan
        for stage, planned in plan.seconds.items():
            if stage not in self._spent or stage not in self._planned:
                self._planned[stage] = planned

    def in_plan(self, stage: StageName) -> float:
        """Return the seconds that the plan gives a stage; 0 before there is one."""
        return self.current.seconds[stage] if self.current else 0.0

    def expect(self, stage: StageName, seconds: float) -> None:
        """Set what a stage is to take, now that more is known than when the plan was made.

        Of a stage that has begun, what it is to take in addition.
        """
        before = self._planned.get(stage, 0.0) if stage in self._spent else 0.0
        self._planned[stage] = before + seconds

    def expect_more(self, stage: StageName, seconds: float, at: float) -> None:
        """Set what the current stage is to take at least from now on, `at` seconds after the start of the run.

        What is planned for it beyond that stays planned.
        """
        self._planned[stage] = max(self._planned.get(stage, 0.0), self.spent(stage, at) + seconds)

    def extend_search(self) -> None:
        """Let the search exceed its share from now on: it only leaves what a proof needs."""
        self._is_extended = True

    def held_back(self, needed: float, trials: int) -> float:
        """Return how much of the budget a trial must leave; see `Plan.held_back`.

        After a proof that failed, and where it has found nothing to prove, the search may exceed its share.
        """
        if self.current is None:
            return needed
        if ("confirm" in self._spent or self._is_extended) and trials:
            return min(needed, self.current.proof)
        return self.current.held_back(needed, trials)

    def spent(self, stage: StageName, at: float) -> float:
        """Return what a stage has taken, `at` seconds after the start of the run."""
        return self._spent.get(stage, 0.0) + (at - self._since if stage == self._now else 0.0)

    def times(self, at: float) -> tuple[StageTimes, ...]:
        """Return the times of all stages that have begun, in their order, `at` seconds after the start."""
        return tuple(
            StageTimes(stage, self._planned.get(stage, 0.0), self.spent(stage, at))
            for stage in get_args(StageName)
            if stage in self._spent
        )
