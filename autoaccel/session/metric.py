"""Whether settings keep the metric: the proof, by trainings or by updates, and who knows what the budget allows for."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.records.recipe import Constraint
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Accuracy, Failure, TrainedPair
from autoaccel.records.workload import TrainingFacts
from autoaccel.report.accuracy import more_runs_words
from autoaccel.session.evidence import MOST_TIMES, MetricPlan, choose_evidence, plan_updates, training_costs
from autoaccel.session.plan import METRIC_SHARE
from autoaccel.session.rounding import MOST_UPDATE_STEPS, judge_rounding, why_not_by_rounding
from autoaccel.session.run import Run
from autoaccel.session.yardstick import Yardstick
from autoaccel.space.knobs import is_exact
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
    shows_a_drop,
)
from autoaccel.statistics.comparison import CONFIDENCE
from autoaccel.statistics.deciding import share_of_error
from autoaccel.statistics.sequences import NOTHING_KNOWN, Scatter, deviation_of
from autoaccel.units import format_duration

_LEAST_PAIRS_TO_GIVE_UP = 2  # with one nothing is known of the scatter

UpdateSource = Callable[[], RoundingEvidence | Failure | None]
"""Returns what the settings' updates say; None if there is no time left to compare them."""


class MetricProof:
    """Whether settings keep the metric, told from one pair of trainings after the other, or from single updates."""

    def __init__(
        self,
        facts: TrainingFacts,
        constraint: Constraint,
        plan: MetricPlan,
        error: float,
        updates: UpdateSource | None = None,
    ) -> None:
        """Begin with nothing trained.

        Args:
            facts: Of the training.
            constraint: What is allowed.
            plan: How it is trained.
            error: Probability with which settings that break the constraint may be accepted.
            updates: Compares updates; None where they could not tell, or must not.
        """
        self.plan = plan
        self.accuracy: Accuracy | None = None
        """What the pairs so far say, None with fewer than two; or the updates, once these have decided."""
        self._facts = facts
        self._constraint = constraint
        self._error = error
        self._updates = updates
        self._pairs: list[TrainedPair] = []

    @property
    def trained(self) -> int:
        """How many pairs have trained: from the seeds 0, 1, 2, ..."""
        return len(self._pairs)

    @property
    def status(self) -> MetricStatus:
        """Whether the metric holds, drops, or more could tell; open while fewer pairs trained than were asked for."""
        if self.accuracy is not None and self.accuracy.rounding is not None:
            return "holds" if self.accuracy.rounding.verdict == "holds" else "drops"
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
        drops = any(seems_to_drop(seen, allowed, known) for seen, allowed, known in self._drops())
        return "drops" if drops else "unclear"

    def compare_updates(self) -> RoundingEvidence | Failure | None:
        """Return what updates say, and take in what they decide; None if they cannot be compared, or not in time.

        Nor are they where runs have shown that the metric drops, be it by less than is allowed: they are the weaker
        evidence.
        """
        drops = self.accuracy is not None and shows_a_drop(self.accuracy, self._constraint)
        if self._updates is None or drops:
            return None
        found = self._updates()
        if isinstance(found, RoundingEvidence) and found.verdict != "open":
            nothing = Accuracy(self._facts.metric, self._facts.direction, None, None, None, None, 0, 0.0, (), ())
            known = self.accuracy or nothing
            self.accuracy = msgspec.structs.replace(known, evidence="rounding", rounding=found)
        return found

    @property
    def missing_pairs(self) -> float:
        """How many more pairs must train if the settings are harmless; infinite if a proof never makes so many."""
        needed = self._runs_needed(harmless=True)
        return max(1, needed - self.trained) if needed <= MOST_TIMES * self.plan.pairs else math.inf

    def unclear_words(self, pair_seconds: float) -> str:
        """Return why more pairs are needed than fit; each takes so long."""
        if self.accuracy is None:
            return f"{self.plan.words} would tell, but do not fit in the budget"
        own = deviation_of([pair.metrics[0] for pair in self._pairs])
        return more_runs_words(own, self._constraint, self._runs_needed(harmless=True), pair_seconds)

    def _runs_needed(self, harmless: bool = False) -> int:
        """Return after how many pairs it is expected to be clear that the metric holds; see `runs_needed`.

        With `harmless`, of settings that scatter like these and change nothing on average.
        """
        bound, center = self._bound(self.plan.most_pairs), 0.0 if harmless else None
        return max(
            runs_needed(seen, allowed, bound._replace(known=known), center) for seen, allowed, known in self._drops()
        )

    def _drops(self) -> list[tuple[list[float], float, Scatter]]:
        """Return the metric's drops, what is allowed and what is known of their scatter; and so of a share's losses."""
        pairs, constraint = self._pairs, self._constraint
        drops = metric_drops(self._facts.direction, pairs, constraint)
        found = [(drops, constraint.max_drop, known_scatter(pairs, constraint))]
        if self.plan.evidence == "share" and (rises := loss_rises(pairs)):
            own = sum(pair.metrics[0] for pair in pairs) / len(pairs)
            found.append((rises, allowed_rise(own, constraint), NOTHING_KNOWN))
        return found

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
        self._risks = space.risks
        warmup_steps = len(yardstick.measurement.warmup_step_seconds)
        self._costs = training_costs(yardstick.facts, yardstick.step_seconds, yardstick.ready_seconds, warmup_steps)

    def plan(self, settings: Settings, speedup: float | None, most_seconds: float = math.inf) -> MetricPlan | None:
        """Return how settings are judged; None if they change no number, so that nothing need be trained.

        Args:
            settings: To be judged.
            speedup: Of their steps; None if it is not known.
            most_seconds: That all trainings may take, besides their share of the budget.
        """
        request = self._run.request
        if is_exact(settings, self._yardstick.settings, self._inexact):
            return None
        seconds = min(METRIC_SHARE * request.budget_seconds, most_seconds)
        rounds = self._only_rounds(settings)
        return choose_evidence(self._costs, speedup or 1.0, request.metric_repeats, seconds, request.evidence, rounds)

    def least_share(self) -> MetricPlan:
        """Return the smallest part of the planned run that tells more than updates do."""
        return choose_evidence(self._costs, 1.0, self._run.request.metric_repeats, 0.0)

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
            f"to see that the metric is kept takes {plan.words}, {format_duration(seconds)}, for which "
            f"--budget {math.ceil(seconds / METRIC_SHARE / 60)}m leaves time"
        )

    def begin(
        self,
        settings: Settings,
        speedup: float,
        contender: int,
        most_seconds: float,
        earlier_steps: int | None = None,
    ) -> MetricProof | None:
        """Return the proof of the n-th contender's metric, from 1, with nothing trained yet; see `plan`.

        Where an earlier part of the run trained for it, as many steps are made as then, so that its pairs count. It has
        looked already; for the looks that follow half of the error is left, which is enough, for the data are the same.
        """
        plan, request = self.plan(settings, speedup, most_seconds), self._run.request
        if plan is None:
            return None
        if plan.evidence != "whole" and earlier_steps is not None:
            pairs = request.metric_repeats
            plan = MetricPlan("share", earlier_steps, pairs, MOST_TIMES * pairs)
        error = (1 - CONFIDENCE) * share_of_error(contender) * (0.5 if earlier_steps is not None else 1.0)
        most_steps = plan.steps if plan.evidence == "rounding" else MOST_UPDATE_STEPS
        updates = functools.partial(self._compare_updates, settings, speedup, most_steps)
        may_ask = self._only_rounds(settings) and request.evidence != "whole"
        return MetricProof(self._yardstick.facts, request.constraint, plan, error, updates if may_ask else None)

    def _only_rounds(self, settings: Settings) -> bool:
        return not why_not_by_rounding(settings, self._yardstick.settings, self._risks)

    def _compare_updates(
        self, settings: Settings, speedup: float, most_steps: int
    ) -> RoundingEvidence | Failure | None:
        """Return what updates say, from no more steps than these; None if there is time for too few."""
        clock, costs = self._run.clock, self._costs
        # The speed may need another pair of processes after that.
        left = clock.left - self._yardstick.pair_seconds(speedup)
        plan = plan_updates(costs, speedup, min(METRIC_SHARE * clock.budget_seconds, left))
        if not plan.fits:
            return None
        own_seconds = costs.start_seconds + min(most_steps, plan.steps) * costs.step_seconds
        return judge_rounding(self._run, self._yardstick.settings, settings, own_seconds)
