"""Whether settings keep the metric: the proof, from one pair of trainings after the other, or from single updates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import msgspec

from autoaccel.proof.limits import MAX_TIMES, MIN_PAIRS_TO_GIVE_UP
from autoaccel.records.accuracy import Accuracy
from autoaccel.records.conclusion import NoTime, RunsMissing
from autoaccel.records.evidence import MetricPlan
from autoaccel.records.messages import Failure
from autoaccel.records.proof import TrainedPair
from autoaccel.records.recipe import Constraint
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.workload import TrainingFacts
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
from autoaccel.statistics.sequences import NOTHING_KNOWN, Scatter, deviation_of

UpdateSource = Callable[[], RoundingEvidence | Failure | None]
"""Returns what the settings' updates say; None if there is no time left to compare them."""

PlanSource = Callable[[], MetricPlan]
"""Returns how settings are judged in what is left of the budget."""


class MetricProof:
    """Whether settings keep the metric, told from one pair of trainings after the other, or from single updates."""

    def __init__(
        self,
        facts: TrainingFacts,
        constraint: Constraint,
        plan: MetricPlan,
        error: float,
        updates: UpdateSource | None = None,
        plan_anew: PlanSource | None = None,
        redrawn: tuple[str, ...] = (),
    ) -> None:
        """Begin with nothing trained.

        Args:
            facts: Of the training.
            constraint: What is allowed.
            plan: How it is trained.
            error: Probability with which settings that break the constraint may be accepted.
            updates: Compares updates; None where they could not tell, or must not.
            plan_anew: Plans once more when the speed is proven; None: pairs of an earlier part of the run must count.
            redrawn: Settings that updates leave out, because they only draw samples with other random numbers.
        """
        self.plan = plan
        self.accuracy: Accuracy | None = None
        """What the pairs so far say, None with fewer than two; or the updates, once these have decided."""
        self._facts = facts
        self._constraint = constraint
        self._error = error
        self._updates = updates
        self._plan_anew = plan_anew
        self._redrawn = redrawn
        self._pairs: list[TrainedPair] = []

    @property
    def trained(self) -> int:
        """How many pairs have trained: from the seeds 0, 1, 2, ..."""
        return len(self._pairs)

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the drops seen, in the constraint's unit; None with fewer than two pairs."""
        drops = metric_drops(self._facts.direction, self._pairs, self._constraint) if self.trained > 1 else None
        return deviation_of(drops) if drops else None

    @property
    def status(self) -> MetricStatus:
        """What the pairs say of the metric; `open` if more could tell, or fewer trained than were asked for."""
        if self.accuracy is not None and self.accuracy.rounding is not None:
            return "holds" if self.accuracy.rounding.verdict == "holds" else "drops"
        is_judged = self.trained >= self.plan.pairs
        return metric_status(self.accuracy, self._constraint) if is_judged else "open"

    def plan_the_rest(self) -> None:
        """Plan once more, as long as nothing has trained: the speed may have taken less than was expected, or more."""
        if self._plan_anew is not None and not self._pairs:
            self.plan = self._plan_anew()

    def add(self, pair: TrainedPair) -> None:
        """Take in what another pair came to."""
        self._pairs.append(pair)
        plan = self.plan
        if MIN_PAIRS_TO_GIVE_UP <= self.trained <= plan.max_pairs:
            self.accuracy = compare_metric(
                self._facts,
                self._pairs,
                self._constraint,
                self._bound(max(plan.pairs, self.trained)),
                share=min(1.0, plan.steps / self._facts.planned_steps),
            )

    def given_up(self, affordable: int) -> Literal["drops", "unclear"] | None:
        """Return why no more pairs need train for a metric that does not hold so far; None: they need.

        It drops, clearly or by what is to be expected; or it is unclear, and cannot be expected to become clear with so
        many more pairs, or cannot be told without another one. Where updates may tell what runs leave open, fewer pairs
        than were asked for do not rule it out by what is to be expected, if there is time for the others and for the
        updates: two alike may be chance.
        """
        if self.status == "drops":
            return "drops"
        if self.accuracy is None:
            return None if affordable else "unclear"
        most = min(self.plan.max_pairs, self.trained + affordable)
        if self.trained < most and self._runs_needed() <= most:
            return None
        drops = any(seems_to_drop(seen, allowed, known) for seen, allowed, known in self._drops())
        if drops and self._updates is not None and self.trained < self.plan.pairs < self.trained + affordable:
            return None
        return "drops" if drops else "unclear"

    def compare_updates(self) -> RoundingEvidence | Failure | None:
        """Return what updates say, and take in what they decide; None if they cannot be compared, or not in time.

        They are not compared either where runs have shown that the metric drops, even by less than is allowed: they
        are the weaker evidence.
        """
        drops = self.accuracy is not None and shows_a_drop(self.accuracy, self._constraint)
        if self._updates is None or drops:
            return None
        found = self._updates()
        if isinstance(found, RoundingEvidence) and found.verdict != "open":
            nothing = Accuracy(self._facts.metric, self._facts.direction, None, None, None, None, 0, 0.0, (), ())
            known = self.accuracy or nothing
            self.accuracy = msgspec.structs.replace(known, evidence="rounding", rounding=found, redrawn=self._redrawn)
        return found

    @property
    def missing_pairs(self) -> float:
        """How many more pairs must train if the settings are harmless; infinite if that is more than a proof makes."""
        needed = self._runs_needed(harmless=True)
        return max(1, needed - self.trained) if needed <= MAX_TIMES * self.plan.pairs else math.inf

    def missing(self, pair_seconds: float) -> NoTime | RunsMissing:
        """Return what more is needed than fits, where a pair takes so many seconds."""
        if self.accuracy is None:
            return NoTime(self.plan)
        deviation, needed = deviation_of([pair.metrics[0] for pair in self._pairs]), self._runs_needed(harmless=True)
        return RunsMissing(deviation, self._constraint, needed, pair_seconds)

    def _runs_needed(self, harmless: bool = False) -> int:
        """Return after how many pairs it is expected to be clear that the metric holds; see `runs_needed`.

        With `harmless`, of settings that scatter like these and change nothing on average.
        """
        bound, center = self._bound(self.plan.max_pairs), 0.0 if harmless else None
        return max(
            runs_needed(seen, allowed, bound._replace(known=known), center) for seen, allowed, known in self._drops()
        )

    def _drops(self) -> list[tuple[list[float], float, Scatter]]:
        """Return the metric's drops, what is allowed and what is known of their scatter; and so of a share's losses."""
        pairs, constraint = self._pairs, self._constraint
        drops = metric_drops(self._facts.direction, pairs, constraint)
        found = [(drops, constraint.max_drop, known_scatter(pairs, constraint))]
        if self.plan.evidence == "share" and (rises := loss_rises(pairs)):
            baseline = sum(pair.metrics[0] for pair in pairs) / len(pairs)
            found.append((rises, allowed_rise(baseline, constraint), NOTHING_KNOWN))
        return found

    def _bound(self, runs: int) -> Bound:
        """Return the bound after this many runs: all looks share the error."""
        confidence = confidence_of_look(runs, self.plan.pairs, self.plan.max_pairs, self._error)
        return Bound(confidence, known_scatter(self._pairs, self._constraint))
