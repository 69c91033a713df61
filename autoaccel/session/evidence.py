"""Evidence that settings keep the metric: what each kind of it costs, and the strongest that fits."""

from __future__ import annotations

import math
from typing import NamedTuple

from autoaccel.records.request import EvidenceWish
from autoaccel.records.trial import MetricEvidence
from autoaccel.records.workload import TrainingFacts
from autoaccel.session.rounding import UPDATE_STEPS

LEAST_STEPS = 20  # a metric after fewer says nothing,
LEAST_SHARE = 0.2
"""nor does one after less of the planned run: many a metric has hardly left its beginning. Chosen on a ResNet-34, a
U-Net and a ConvNeXt of benchmarks/unseen: after 5 to 8 % of their runs two pairs stood at chance or left a drop of
many times what is allowed open, and took three times as long as updates or longer."""

MOST_TIMES = 2  # as many pairs as were asked for train at most

_EVALUATION_STEPS = 1 / 3
"""What evaluating a batch takes, in steps: a forward pass is about a third of the work of a step."""


class TrainingCosts(NamedTuple):
    """What training for the metric costs."""

    planned_steps: int
    step_seconds: float  # of the baseline
    start_seconds: float = 0.0  # of each training, until it has warmed up
    evaluation_seconds: float = 0.0  # of each training, as far as that is known

    def pair_seconds(self, steps: int, speedup: float) -> float:
        """Return what a pair of trainings of so many steps takes, under the user's own settings and under others."""
        return 2 * self.evaluation_seconds + self.updates_seconds(steps, speedup)

    def updates_seconds(self, steps: int, speedup: float) -> float:
        """Return what a pair takes that is not evaluated: whose single updates are compared."""
        return 2 * self.start_seconds + steps * self.step_seconds * (1 + 1 / speedup)

    def affordable_steps(self, seconds: float, speedup: float) -> int:
        """Return how many steps each training of a pair makes that takes so long, below zero if none."""
        return int((seconds - self.pair_seconds(0, speedup)) // (self.step_seconds * (1 + 1 / speedup)))


class MetricPlan(NamedTuple):
    """What is to show that settings keep the metric."""

    evidence: MetricEvidence
    steps: int  # of each training
    pairs: int  # that train before it is judged for the first time
    most_pairs: int  # that train at most; fewer than `pairs` if not even these fit
    at_once: bool = False  # whether they train before the speed is proven, which they tell, too

    @property
    def fits(self) -> bool:
        """Whether there is time for it."""
        return self.most_pairs >= self.pairs

    @property
    def training_pairs(self) -> int:
        """How many pairs of processes train to their end; none where updates are compared."""
        return 0 if self.evidence == "rounding" else self.pairs

    def seconds(self, costs: TrainingCosts, speedup: float = 1.0) -> float:
        """Return what the trainings take that come before it is judged for the first time."""
        if self.evidence == "rounding":
            return costs.updates_seconds(self.steps, speedup)
        return self.pairs * costs.pair_seconds(self.steps, speedup)

    @property
    def runs_words(self) -> str:
        """What trains, in words."""
        if self.evidence == "rounding":
            return f"the updates in two runs of {self.steps:,} steps"
        return "planned runs" if self.evidence == "whole" else f"runs of {self.steps:,} steps"

    @property
    def words(self) -> str:
        """The same, and how often."""
        return self.runs_words if self.evidence == "rounding" else f"{self.pairs} pairs of {self.runs_words}"


def training_costs(facts: TrainingFacts, step_seconds: float, ready_seconds: float, warmup_steps: int) -> TrainingCosts:
    """Return what training for the metric costs.

    Args:
        facts: Of the training.
        step_seconds: What a step takes.
        ready_seconds: What it takes to start and to warm up,
        warmup_steps: with so many steps, which a training makes anyway.
    """
    start_seconds = max(0.0, ready_seconds - warmup_steps * step_seconds)
    batches = (facts.eval_samples or 0) / (facts.batch_size or 1)
    return TrainingCosts(facts.planned_steps, step_seconds, start_seconds, _EVALUATION_STEPS * batches * step_seconds)


def choose_evidence(
    costs: TrainingCosts,
    speedup: float,
    pairs: int,
    seconds: float,
    wish: EvidenceWish = "any",
    only_rounds: bool = False,
) -> MetricPlan:
    """Return the strongest evidence that fits, or the cheapest, which does not fit, if none does.

    Args:
        costs: Of trainings.
        speedup: That is expected of the settings' steps.
        pairs: That must train before anything can be said.
        seconds: That all of them may take.
        wish: "whole": nothing but planned runs will do.
        only_rounds: Whether the settings change nothing but how numbers are rounded, so that updates can be compared.
    """
    whole_seconds = costs.pair_seconds(costs.planned_steps, speedup)
    most = min(MOST_TIMES * pairs, max(0, int(seconds // whole_seconds)))
    if most >= pairs or wish == "whole":
        return MetricPlan("whole", costs.planned_steps, pairs, most)
    least = max(LEAST_STEPS, math.ceil(LEAST_SHARE * costs.planned_steps))
    if costs.affordable_steps(seconds / pairs, speedup) >= least:
        # Runs may leave it open. Of settings that only round updates can tell then, if there is time left for them.
        kept = costs.updates_seconds(UPDATE_STEPS, speedup) if only_rounds else 0.0
        steps = costs.affordable_steps((seconds - kept) / pairs, speedup)
        return MetricPlan("share", max(least, steps), pairs, pairs)
    if only_rounds:
        return MetricPlan("rounding", UPDATE_STEPS, 1, int(seconds >= costs.updates_seconds(UPDATE_STEPS, speedup)))
    return MetricPlan("share", least, pairs, 0)
