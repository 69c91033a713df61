"""Evidence that settings keep the metric: which kind fits the run and the budget, and what its trainings show."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from autoaccel.errors import BadRequestError
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import EvidenceWish
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Accuracy, MetricEvidence, TrainedPair
from autoaccel.records.workload import TrainingFacts
from autoaccel.report.wording import more_runs_words
from autoaccel.session.plan import METRIC_SHARE
from autoaccel.session.run import Run
from autoaccel.session.yardstick import Yardstick
from autoaccel.space.knobs import is_exact, only_rounds
from autoaccel.statistics.accuracy import (
    Bound,
    MetricStatus,
    allowed_rise,
    compare_metric,
    confidence_of_look,
    known_scatter,
    loss_rises,
    metric_drops,
    metric_status,
    runs_needed,
    seems_to_drop,
)
from autoaccel.statistics.comparison import CONFIDENCE
from autoaccel.statistics.deciding import share_of_error
from autoaccel.statistics.sequences import NOTHING_KNOWN, deviation_of
from autoaccel.units import format_duration

LEAST_STEPS = 20  # a metric after fewer says nothing,
LEAST_SHARE = 0.05
"""nor does one after less of the planned run: learning rates usually rise over the first hundredths of a run."""

_LEAST_PAIRS_TO_GIVE_UP = 2  # with one nothing is known of the scatter
_MOST_TIMES = 2  # as many pairs as were asked for train at most
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
        return 2 * (self.start_seconds + self.evaluation_seconds) + steps * self.step_seconds * (1 + 1 / speedup)

    def affordable_steps(self, seconds: float, speedup: float) -> int:
        """Return how many steps each training of a pair makes that takes so long, below zero if none."""
        training_seconds = seconds - self.pair_seconds(0, speedup)
        return int(training_seconds // (self.step_seconds * (1 + 1 / speedup)))


class MetricPlan(NamedTuple):
    """What is to show that settings keep the metric."""

    evidence: MetricEvidence
    steps: int  # of each training
    pairs: int  # that train before it is judged for the first time
    most_pairs: int  # that train at most; fewer than `pairs` if not even these fit

    @property
    def fits(self) -> bool:
        """Whether there is time for it."""
        return self.most_pairs >= self.pairs

    def seconds(self, costs: TrainingCosts, speedup: float = 1.0) -> float:
        """Return what the trainings take that come before it is judged for the first time."""
        return self.pairs * costs.pair_seconds(self.steps, speedup)

    @property
    def runs_words(self) -> str:
        """What trains, in words."""
        return "planned runs" if self.evidence == "whole" else f"runs of {self.steps:,} steps"


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
    """Return the strongest evidence that fits, or one that does not if none does.

    Args:
        costs: Of trainings.
        speedup: That is expected of the settings' steps.
        pairs: That must train before anything can be said.
        seconds: That all of them may take.
        wish: "whole": nothing but planned runs will do.
        only_rounds: Whether the settings change nothing but how numbers are rounded.
    """
    whole_seconds = costs.pair_seconds(costs.planned_steps, speedup)
    most = min(_MOST_TIMES * pairs, max(0, int(seconds // whole_seconds)))
    if most >= pairs or wish == "whole":
        return MetricPlan("whole", costs.planned_steps, pairs, most)
    steps = costs.affordable_steps(seconds / pairs, speedup)
    least = max(LEAST_STEPS, math.ceil(LEAST_SHARE * costs.planned_steps))
    if only_rounds:  # what rounding does shows in a few steps
        return MetricPlan("share", min(costs.planned_steps, max(LEAST_STEPS, steps)), pairs, pairs)
    return MetricPlan("share", max(least, steps), pairs, pairs if steps >= least else 0)


class MetricProof:
    """Whether settings keep the metric, told from one pair of trainings after the other."""

    def __init__(self, facts: TrainingFacts, constraint: Constraint, plan: MetricPlan, error: float) -> None:
        """Begin with nothing trained.

        Args:
            facts: Of the training.
            constraint: What is allowed.
            plan: How it is trained.
            error: Probability with which settings that break the constraint may be accepted.
        """
        self.plan = plan
        self.accuracy: Accuracy | None = None
        """What the pairs so far say; None with fewer than two."""
        self._facts = facts
        self._constraint = constraint
        self._error = error
        self._pairs: list[TrainedPair] = []

    @property
    def trained(self) -> int:
        """How many pairs have trained: from the seeds 0, 1, 2, ..."""
        return len(self._pairs)

    @property
    def status(self) -> MetricStatus:
        """Whether the metric holds, drops, or more pairs could tell; open while there are fewer than were asked for."""
        is_judged = self.trained >= self.plan.pairs
        return metric_status(self.accuracy, self._constraint) if is_judged else "open"

    def add(self, pair: TrainedPair) -> None:
        """Take in what another pair came to."""
        self._pairs.append(pair)
        plan = self.plan
        if _LEAST_PAIRS_TO_GIVE_UP <= self.trained <= plan.most_pairs:
            self.accuracy = compare_metric(
                self._facts.metric,
                self._facts.direction,
                self._pairs,
                share=min(1.0, plan.steps / self._facts.planned_steps),
                constraint=self._constraint,
                bound=self._bound(max(plan.pairs, self.trained)),
                samples=self._facts.eval_samples,
            )

    def given_up(self, affordable: int) -> Literal["drops", "unclear"] | None:
        """Return why no more pairs need train for a metric that does not hold so far; None: they need.

        It drops, clearly or by what is to be expected; or it is unclear, and cannot be expected to become clear with so
        many more pairs.
        """
        if self.status == "drops":
            return "drops"
        if self.accuracy is None:
            return None
        most = min(self.plan.most_pairs, self.trained + affordable)
        if self.trained < most and self._runs_needed() <= most:
            return None
        return "drops" if seems_to_drop(self.accuracy, self._constraint) else "unclear"

    @property
    def missing_pairs(self) -> float:
        """How many more pairs must train if the settings are harmless; infinite if a proof never makes so many."""
        needed = self._runs_needed(harmless=True)
        return max(1, needed - self.trained) if needed <= _MOST_TIMES * self.plan.pairs else math.inf

    def unclear_words(self, pair_seconds: float) -> str:
        """Return why more pairs are needed than fit; each takes so long."""
        if self.accuracy is None:
            return f"{self.plan.pairs} pairs of {self.plan.runs_words} would tell, but do not fit in the budget"
        own = deviation_of([pair.metrics[0] for pair in self._pairs])
        return more_runs_words(own, self._constraint, self._runs_needed(harmless=True), pair_seconds)

    def _runs_needed(self, harmless: bool = False) -> int:
        """Return after how many pairs it is expected to be clear that the metric holds; see `runs_needed`.

        With `harmless`, of settings that scatter like these and change nothing on average.
        """
        pairs, constraint, plan = self._pairs, self._constraint, self.plan
        bound = self._bound(plan.most_pairs)
        center = 0.0 if harmless else None
        drops = metric_drops(self._facts.direction, pairs, constraint)
        needed = runs_needed(drops, constraint.max_drop, bound, center)
        if plan.evidence == "share" and (rises := loss_rises(pairs)):
            own = sum(pair.metrics[0] for pair in pairs) / len(pairs)
            of_rises = bound._replace(known=NOTHING_KNOWN)
            needed = max(needed, runs_needed(rises, allowed_rise(own, constraint), of_rises, center))
        return needed

    def _bound(self, runs: int) -> Bound:
        """Return the bound after so many runs: all looks share the error."""
        confidence = confidence_of_look(runs, self.plan.pairs, self.plan.most_pairs, self._error)
        return Bound(confidence, known_scatter(self._pairs, self._constraint))


class MetricJudge:
    """Knows what evidence the rest of a run's budget allows for."""

    def __init__(self, run: Run, yardstick: Yardstick, space: SearchSpace) -> None:
        """Read off the baseline what training costs."""
        self._run = run
        self._yardstick = yardstick
        self._inexact = space.inexact
        warmup_steps = len(yardstick.measurement.warmup_step_seconds)
        self._costs = training_costs(yardstick.facts, yardstick.step_seconds, yardstick.ready_seconds, warmup_steps)

    def plan(self, settings: Settings, speedup: float | None, most_seconds: float = math.inf) -> MetricPlan | None:
        """Return how settings are judged; None if they change no number, so that nothing need be trained.

        Args:
            settings: To be judged.
            speedup: Of their steps; None if it is not known.
            most_seconds: That all trainings may take, besides their share of the budget.
        """
        own, request = self._yardstick.settings, self._run.request
        if is_exact(settings, own, self._inexact):
            return None
        seconds = min(METRIC_SHARE * request.budget_seconds, most_seconds)
        rounds = only_rounds(settings, own, self._inexact)
        return choose_evidence(self._costs, speedup or 1.0, request.metric_repeats, seconds, request.evidence, rounds)

    def seconds(self, plan: MetricPlan, speedup: float | None) -> float:
        """Return what a plan's trainings take under settings of this speed-up; None if it is not known."""
        return plan.seconds(self._costs, speedup or 1.0)

    def unprovable(self, space: SearchSpace) -> dict[str, str]:
        """Return the open knobs of which nothing that fits could show that they keep the metric, and why.

        Raises:
            BadRequestError: If a person has set such a value.
        """
        own, found = self._yardstick.settings, dict[str, str]()
        if reason := self._why_unprovable({**own, **space.fixed}):
            raise BadRequestError(f"--set: {reason}.")
        for name, values in space.open.items():
            other = next((value for value in values if value != own[name]), own[name])
            if reason := self._why_unprovable({**own, name: other}):
                found[name] = reason
        return found

    def _why_unprovable(self, settings: Settings) -> str:
        plan = self.plan(settings, speedup=math.inf)  # steps that take no time would leave the most for it
        if plan is None or plan.fits:
            return ""
        seconds = plan.seconds(self._costs)
        return (
            f"to see that the metric is kept takes {plan.pairs} pairs of {plan.runs_words}, "
            f"{format_duration(seconds)}, for which --budget {math.ceil(seconds / METRIC_SHARE / 60)}m leaves time"
        )

    def begin(
        self,
        settings: Settings,
        speedup: float | None,
        contender: int,
        most_seconds: float,
        earlier_steps: int | None = None,
    ) -> MetricProof | None:
        """Return the proof of the n-th contender's metric, from 1, with nothing trained yet; see `plan`.

        Where an earlier part of the run trained for it, as many steps are made as then, so that its pairs count. It has
        looked already; for the looks that follow half of the error is left, which is enough, for the data are the same.
        """
        plan = self.plan(settings, speedup, most_seconds)
        if plan is not None and plan.evidence == "share" and earlier_steps is not None:
            plan = plan._replace(steps=earlier_steps, most_pairs=_MOST_TIMES * plan.pairs)
        error = (1 - CONFIDENCE) * share_of_error(contender) * (0.5 if earlier_steps is not None else 1.0)
        return MetricProof(self._yardstick.facts, self._run.request.constraint, plan, error) if plan else None
