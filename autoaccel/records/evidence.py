"""MetricPlan: what is to show that settings keep the metric. TrainingCosts: what that takes."""

from __future__ import annotations

from typing import NamedTuple

from autoaccel.records.accuracy import MetricEvidence


class TrainingCosts(NamedTuple):
    """What training for the metric costs."""

    planned_steps: int
    step_seconds: float  # of the baseline
    start_seconds: float = 0.0  # of each training, until it has warmed up
    evaluation_seconds: float = 0.0  # of each training, as far as that is known
    extra_start_seconds: float = 0.0  # of the one under other settings: its code, once compiled, is loaded again
    recorded: frozenset[int] = frozenset()  # after how many steps the user's own updates are kept from an earlier look

    def pair_seconds(self, steps: int, speedup: float) -> float:
        """Return what a pair of trainings of so many steps takes, under the user's own settings and under others."""
        own, others = self._seconds(steps, 1.0), self._seconds(steps, speedup) + self.extra_start_seconds
        return 2 * self.evaluation_seconds + own + others

    def updates_seconds(self, steps: int, speedup: float) -> float:
        """Return what it takes to compare single updates: the user's own are made once in a run, and kept."""
        own = 0.0 if steps in self.recorded else self._seconds(steps, 1.0)
        return own + self._seconds(steps, speedup) + self.extra_start_seconds

    def _seconds(self, steps: int, speedup: float) -> float:
        """Return what one training takes that is not evaluated."""
        return self.start_seconds + steps * self.step_seconds / speedup

    def affordable_steps(self, seconds: float, speedup: float) -> int:
        """Return how many steps each training of a pair makes that takes so long, below zero if none."""
        return int((seconds - self.pair_seconds(0, speedup)) // (self.step_seconds * (1 + 1 / speedup)))


class MetricPlan(NamedTuple):
    """What is to show that settings keep the metric."""

    evidence: MetricEvidence
    steps: int  # of each training
    pairs: int  # that train before it is judged for the first time
    max_pairs: int  # that train at most; fewer than `pairs` if not even these fit
    at_once: bool = False  # whether they train before the speed is proven, which they tell, too

    @property
    def fits(self) -> bool:
        """Whether there is time for it."""
        return self.max_pairs >= self.pairs

    @property
    def training_pairs(self) -> int:
        """How many pairs of processes train to their end; none where updates are compared."""
        return 0 if self.evidence == "rounding" else self.pairs

    def seconds(self, costs: TrainingCosts, speedup: float = 1.0) -> float:
        """Return what the trainings take that come before it is judged for the first time."""
        if self.evidence == "rounding":
            return costs.updates_seconds(self.steps, speedup)
        return self.pairs * costs.pair_seconds(self.steps, speedup)
