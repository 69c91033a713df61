"""Choose the evidence by which a metric is judged in what is left of a run's budget."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from autoaccel.bench.bench import Bench
from autoaccel.bench.rounding import (
    UPDATE_STEPS,
    may_compare_updates,
    why_not_by_rounding,
)
from autoaccel.errors import BadRequestError
from autoaccel.proof.earlier import NOTHING_EARLIER, Earlier
from autoaccel.proof.evidence import choose_evidence, is_kept_anyway, min_share, planned_runs, training_costs
from autoaccel.proof.limits import FASTEST, MAX_TIMES, RESUMED
from autoaccel.proof.metric import MetricProof
from autoaccel.records.accuracy import Accuracy, exact_numbers, redrawn_numbers
from autoaccel.records.conclusion import Unprovable
from autoaccel.records.evidence import MetricPlan, TrainingCosts
from autoaccel.records.messages import Failure
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.report.conclusions import unprovable_words
from autoaccel.runs.limits import EVIDENCE_SHARE, LARGE_SPEEDUP, METRIC_SHARE, PROOF_MARGIN
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.space.change import Change
from autoaccel.statistics.accuracy import (
    SAMPLE_DEGREES,
    Bound,
    chance_to_hold,
    confidence_of_look,
    expected_scatter,
)
from autoaccel.statistics.comparison import CONFIDENCE
from autoaccel.statistics.deciding import MIN_PAIRS, deciding_pairs, share_of_error
from autoaccel.statistics.sequences import NOTHING_KNOWN, Scatter, learned
from autoaccel.statistics.turn_plan import TURNS


class MetricJudge:
    """Knows what evidence the rest of a run's budget allows for."""

    def __init__(
        self,
        run: TuningRun,
        baseline: Bench,
        extra_start_seconds: Callable[[Settings], float],
    ) -> None:
        """Read off the baseline what training costs.

        Args:
            run: What all stages share.
            baseline: The user's own settings.
            extra_start_seconds: Returns how much longer than the baseline's a process takes to start under settings
                whose code was compiled before.
        """
        self._run = run
        self._baseline = baseline
        self._extra_start_seconds = extra_start_seconds
        warmup_steps = len(baseline.measurement.warmup_step_seconds)
        self._own_costs = training_costs(baseline.facts, baseline.step_seconds, baseline.ready_seconds, warmup_steps)
        samples, relative = baseline.facts.eval_samples, run.request.constraint.relative
        # An amount says nothing of a loss whose size nobody knows.
        self._scatter = expected_scatter(samples) if samples or relative else NOTHING_KNOWN

    def _costs(self, change: Change, resumed: bool = False) -> TrainingCosts:
        return self._own_costs._replace(
            extra_start_seconds=self._extra_start_seconds(change.settings),
            recorded=frozenset() if resumed else self._baseline.compared_steps,
        )

    def pair_seconds(self, change: Change, speedup: float | None) -> float:
        """Return what a pair takes that only tells the speed; a speed-up of None stands for the baseline's speed."""
        return self._baseline.pair_seconds(speedup or 1.0) + self._extra_start_seconds(change.settings)

    def plan(
        self, change: Change, speedup: float | None, left: float = math.inf, by_updates: bool = True
    ) -> MetricPlan | None:
        """Return how a change is judged before anything of it is proven; None if nothing need be shown.

        Beside what judges the metric there is time for the pairs of processes that the speed is expected to take.
        Pairs that train tell the speed, too. They spare others where trainings are short, and where there is no time
        for both: then they come at once. Else the speed is proven first, for a part of what they take.

        Args:
            change: To be judged.
            speedup: Of their steps; None if it is not known.
            left: Seconds for all of the proof.
            by_updates: Whether updates may tell, if the change only rounds.
        """
        if is_kept_anyway(change, self._run.request.options):
            return None
        choose = functools.partial(self._choose, change, speedup, by_updates=by_updates)
        pairs = deciding_pairs(speedup, self._run.drift) if speedup else MIN_PAIRS
        pair_seconds, planned = self.pair_seconds(change, speedup), left / PROOF_MARGIN
        beside = max(0, pairs - self._run.request.options.metric_repeats)
        early, late = choose(planned - beside * pair_seconds), choose(planned - pairs * pair_seconds)
        if early.fits and early.training_pairs and (self._is_short(early.steps) or not late.fits):
            return early._replace(at_once=True)
        return late._replace(at_once=late.fits and late.training_pairs > 0 and self._is_short(late.steps))

    def chance(self, change: Change, speedup: float | None) -> float:
        """Return the probability that the evidence for a harmless change decides.

        Updates count as sure. Where a person asks for planned runs these are made, whatever they will tell.
        """
        plan = self.plan(change, speedup)
        is_asked_for = self._run.request.options.evidence == "whole"
        return 1.0 if plan is None or is_asked_for or not plan.fits else self._chance(plan)

    def _chance(self, plan: MetricPlan) -> float:
        """Return the probability that a plan that fits decides; see `chance_to_hold`."""
        if not plan.training_pairs:
            return 1.0
        share = min(1.0, plan.steps / self._baseline.facts.planned_steps)
        # The scores of samples tell of their scatter while runs are made.
        known = Scatter(0.0, SAMPLE_DEGREES if self._baseline.facts.eval_samples else 0)
        error = (1 - CONFIDENCE) * share_of_error(1)
        bound = Bound(confidence_of_look(plan.max_pairs, plan.pairs, plan.max_pairs, error), known)
        scatter = self._scatter._replace(deviation=self._scatter.deviation / share)
        return chance_to_hold(scatter, self._run.request.constraint.max_drop, bound, plan.max_pairs)

    def learn(self, metric: MetricProof) -> None:
        """Learn from the trainings of one proof how much the metric scatters; other changes' will scatter alike.

        After a part of the run it is taken to scatter more by as much as the run is longer, a fifth five times as much:
        of the digits and a table in `benchmarks/studies/seeds.py` it was 2 to 4 times.
        """
        if metric.deviation is not None:
            share = min(1.0, metric.plan.steps / self._baseline.facts.planned_steps)
            self._scatter = learned(self._scatter, metric.trained, share * metric.deviation)

    def known(self, change: Change) -> Accuracy:
        """Return what is known of the metric under a change of which nothing need be shown; see `is_kept_anyway`."""
        facts = self._baseline.facts
        if change.redrawn:
            return redrawn_numbers(facts.metric, facts.direction, change.redrawn)
        return exact_numbers(facts.metric, facts.direction)

    def min_share(self) -> MetricPlan:
        """Return the smallest part of the planned run that tells more than updates do."""
        return min_share(self._own_costs, self._run.request.options.metric_repeats)

    def planned_runs(self) -> MetricPlan:
        """Return the strongest evidence, whatever it takes."""
        return planned_runs(self._own_costs, self._run.request.options.metric_repeats)

    def seconds(self, plan: MetricPlan, change: Change, speedup: float | None, resumed: bool = False) -> float:
        """Return what a plan's trainings take.

        Args:
            plan: Of the trainings.
            change: To be judged.
            speedup: Of their steps; None stands for the baseline's speed.
            resumed: Whether they are left to a further part of the run, which has none of the updates kept in this one.
        """
        return plan.seconds(self._costs(change, resumed), speedup or 1.0)

    def budget_seconds(self, plan: MetricPlan, change: Change, speedup: float | None) -> float:
        """Return the least budget of a whole run that leaves time for these trainings, or for a look at updates."""
        seconds = self.seconds(plan, change, speedup, resumed=True)
        return seconds if plan.evidence == "rounding" else seconds / METRIC_SHARE

    def unprovable(self, space: SearchSpace) -> dict[str, Unprovable]:
        """Return the open knobs of which nothing that fits could show that they keep the metric, and what would.

        Raises:
            BadRequestError: If a person has set such a value.
        """
        own, found = self._baseline.settings, dict[str, Unprovable]()
        if why := self._why_unprovable(Change({**own, **space.fixed}, own, space)):
            raise BadRequestError(f"--set: {unprovable_words(why)}.")
        for name, values in space.open.items():
            other = next((value for value in values if value != own[name]), own[name])
            if why := self._why_unprovable(Change({**own, name: other}, own, space)):
                found[name] = why
        return found

    def _why_unprovable(self, change: Change) -> Unprovable | None:
        plan = self.plan(change, FASTEST)
        if plan is None or plan.fits:
            return None
        seconds = plan.seconds(self._costs(change))
        return Unprovable(plan, seconds, math.ceil(seconds / METRIC_SHARE / 60))

    def begin(
        self, change: Change, speedup: float, contender: int, earlier: Earlier = NOTHING_EARLIER
    ) -> MetricProof | None:
        """Return the proof of the n-th contender's metric, from 1, with nothing trained yet; see `plan`.

        Where an earlier part of the run trained for it, as many steps are made as then, so that its pairs count. It has
        looked already; for the looks that follow a part of the error is left (`RESUMED`).

        Args:
            change: The contender.
            speedup: Of their steps.
            contender: Its number.
            earlier: What an earlier part of the run has found.
        """
        by_updates = not earlier.differed_by_updates(change.settings)
        run, pairs = self._run, self._run.request.options.metric_repeats
        plan = self.plan(change, speedup, run.clock.left, by_updates)
        if plan is None:
            return None
        measured = earlier.pairs_of(change.settings)
        trained = [pair.steps for pair in measured if pair.steps]
        if plan.evidence != "whole" and trained:
            plan = MetricPlan("share", trained[-1], pairs, MAX_TIMES * pairs)
        if measured:  # pairs count only if they are asked for in the same order
            plan = plan._replace(at_once=measured[0].steps == plan.steps)
        return MetricProof(
            self._baseline.facts,
            run.request.constraint,
            plan,
            error=(1 - CONFIDENCE) * share_of_error(contender) * RESUMED ** earlier.parts_with_runs(change.settings),
            updates=functools.partial(self._compare_updates, change, speedup)
            if by_updates and self._may_ask_updates(change)
            else None,
            plan_anew=None if trained else functools.partial(self._plan_the_rest, change, speedup, by_updates),
            redrawn=change.redrawn,
        )

    def _choose(self, change: Change, speedup: float | None, seconds: float, by_updates: bool) -> MetricPlan:
        """Return the strongest evidence that fits into this time, into its share of the budget, and of what is saved.

        These shares are those of trainings: updates are the least that tells, and may take all that the speed leaves.
        Where a person asks for planned runs, these may cost more than they save.
        """
        request, options = self._run.request, self._run.request.options
        most = min(METRIC_SHARE * request.budget_seconds, seconds)
        if options.evidence != "whole":
            most = min(most, EVIDENCE_SHARE * self._saved_seconds(speedup or LARGE_SPEEDUP))
        rounds = by_updates and self._may_ask_updates(change)
        costs = self._costs(change)
        plan = choose_evidence(costs, speedup or 1.0, most, options, rounds, self._chance)
        if plan.evidence == "rounding" and costs.updates_seconds(UPDATE_STEPS, speedup or 1.0) <= seconds:
            return plan._replace(max_pairs=1)
        return plan

    def _saved_seconds(self, speedup: float) -> float:
        """Return what steps that are so many times as fast save over all trainings."""
        steps_seconds = self._baseline.facts.planned_steps * self._baseline.step_seconds
        return self._run.request.options.trainings * steps_seconds * max(0.0, 1 - 1 / speedup)

    def _plan_the_rest(self, change: Change, speedup: float, by_updates: bool) -> MetricPlan:
        """Return how a change is judged whose speed is proven, in what is left; nothing else needs any of it."""
        left = self._run.clock.left
        plan = self._choose(change, speedup, left / PROOF_MARGIN, by_updates)
        # What fits barely is tried as well: there is nothing to lose any more.
        plan = plan if plan.fits else self._choose(change, speedup, left, by_updates)
        self._run.stages.expect("metric", self.seconds(plan, change, speedup))
        return plan

    def _is_short(self, steps: int) -> bool:
        """Whether a training of this many steps takes hardly longer than the turns that judge the speed."""
        return steps * self._baseline.step_seconds <= 2 * TURNS * self._baseline.plan.turn_seconds()

    def _may_ask_updates(self, change: Change) -> bool:
        if not may_compare_updates(self._baseline.facts):
            return False
        return not why_not_by_rounding(change) and self._run.request.options.evidence != "whole"

    def beyond_updates(self, change: Change) -> tuple[str, ...]:
        """Return the settings but for which updates could tell whether a change keeps the metric.

        None if they can tell already, or could tell nothing of what is left.
        """
        names = [name for name in change.names if why_not_by_rounding(change.only(name))]
        rest = change.without(*names)
        return tuple(names) if names and rest.inexact_part and self._may_ask_updates(rest) else ()

    def _compare_updates(self, change: Change, speedup: float) -> RoundingEvidence | Failure | None:
        """Return what updates say; None if there is no time to compare them.

        On the same samples: what only draws them with other random numbers stays as the user has it. Another pair of
        processes may be needed after that, for the speed, if there is time for it.
        """

        clock, costs = self._run.clock, self._costs(change)

        def has_time(steps: int, most_seconds: float) -> bool:
            # A script's own loop ends where it ends.
            there_are = steps <= self._baseline.facts.most_steps
            return there_are and costs.updates_seconds(steps, speedup) <= most_seconds

        def has_time_again(steps: int) -> bool:
            # The first points are the least that tells; a second look keeps to the share of trainings.
            if not has_time(steps, min(METRIC_SHARE * clock.budget_seconds, clock.left)):
                return False
            self._run.stages.expect("metric", costs.updates_seconds(steps, speedup))
            return True

        if not has_time(UPDATE_STEPS, clock.left):
            return None
        rounds = change.without(*change.redrawn)
        return self._baseline.compare_updates(rounds.settings, has_time_again)
