"""Make the plan of a run from what the first steps of its baseline show, and again when more is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel.bench.rounding import may_compare_updates, why_not_by_rounding
from autoaccel.errors import BudgetSpentError
from autoaccel.proof.evidence import choose_evidence, is_kept_anyway, training_costs
from autoaccel.records.space import SearchSpace
from autoaccel.runs.least_run import RunTimes, least_times
from autoaccel.runs.limits import LARGE_SPEEDUP, METRIC_SHARE
from autoaccel.runs.plan import Costs, plan_stages, too_small
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.session.limits import MIN_PROFILED_STEPS, PROFILE_WARMUP_SECONDS, PROFILE_WARMUP_STEPS
from autoaccel.session.setup import can_win
from autoaccel.space.change import Change
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.statistics.deciding import FURTHER_PAIRS, MIN_PAIRS
from autoaccel.statistics.turn_plan import pair_seconds, pair_turns, plan_turns, trial_seconds, turns_worth
from autoaccel.units import format_duration
from autoaccel.workers.measuring import Measuring

if TYPE_CHECKING:
    from autoaccel.bench.bench import Bench


class Planner:
    """Divides the budget of one run among its stages."""

    def __init__(self, run: TuningRun, context: KnobContext, space: SearchSpace) -> None:
        """Begin with nothing known, before the search has begun.

        Args:
            run: What all stages share.
            context: The machine and the training, which must be known.
            space: What may be searched.
        """
        assert context.training is not None
        self._run = run
        self._has_trials = bool(run.folder.load_trials())  # of an earlier part of the run
        self._facts = context.training
        self._before_profile = 0.0  # seconds: until its process has warmed up
        own = baseline_settings(context)
        # Each open knob alone, with any value but the user's own: risks are those of knobs.
        changes = [Change({**own, **space.fixed, name: values[-1]}, own, space) for name, values in space.open.items()]
        self._inexact = [one for one in changes if not is_kept_anyway(one, run.request.options)]
        rounding = [one for one in self._inexact if not why_not_by_rounding(one)]
        self._may_only_round = bool(rounding) and may_compare_updates(context.training)

    def after_look(self, first_step_seconds: float, step_seconds: float) -> None:
        """Refuse a budget that the first look at a script shows to be far too small.

        What the look has taken, the next process may not take: files were cold, and the machine was asked what it can
        do beside it. So no budget is refused in which there is time for a run of half of these times.

        Args:
            first_step_seconds: From the start of the process to the end of the first step.
            step_seconds: What a step took.

        Raises:
            BudgetSpentError: With one that would do.
        """
        start_seconds = max(0.0, first_step_seconds - step_seconds)
        if not can_win(start_seconds, start_seconds + self._facts.planned_steps * step_seconds):
            return
        least = self._costs(least_times(start_seconds / 2, step_seconds / 2))
        if least.leanest_run > least.budget:
            why = f"the first step was made after {format_duration(first_step_seconds)}, and a step takes "
            costs = self._costs(least_times(start_seconds, step_seconds))
            name = Path(self._run.request.workload.path).name
            raise BudgetSpentError(f"{name}: {too_small(costs, why + format_duration(step_seconds))}")

    def after_first_steps(self, baseline: Measuring) -> None:
        """Make the plan from the first steps of the baseline.

        The quickest of them counts: a neighbour on a shared machine may have slowed the others down, and the
        plan has a margin for one that comes later. Where start-up is nearly all of the run, no budget would do: nothing
        is refused, since the baseline alone tells that there is nothing to win.

        Raises:
            BudgetSpentError: If not even the leanest run fits into the budget, with one that would do.
        """
        step_seconds = min(baseline.measurement.warmup_step_seconds)
        turns = plan_turns(step_seconds, self._facts.device)
        ready, again = baseline.ready_seconds, baseline.ready_again_seconds
        usual, large = turns.usual_deviation, LARGE_SPEEDUP
        times = RunTimes(
            warmup_step_seconds=baseline.measurement.warmup_step_seconds,
            ready_seconds=ready,
            step_seconds=step_seconds,
            trial_seconds=trial_seconds(turns, ready, turns_worth(turns, ready, usual, large), large),
            pair_seconds=pair_seconds(turns, again, pair_turns(turns, 2 * again, usual)),
            min_pair_seconds=pair_seconds(turns, again, pair_turns(turns, 2 * again, usual, large), large),
            still_to_come=turns.turns_alone * turns.turn_seconds(),
        )
        overhead_seconds = baseline.measurement.overhead_seconds
        total_seconds = overhead_seconds + self._facts.planned_steps * step_seconds
        self._follow(times, must_fit=can_win(overhead_seconds, total_seconds))

    def anew(self, baseline: Bench) -> None:
        """Make the plan once more, now that the baseline was measured and something can be won.

        If nothing fits any more, the first plan is kept.

        Raises:
            BudgetSpentError: If nothing fits and there is no first plan.
        """
        times = RunTimes(
            warmup_step_seconds=baseline.measurement.warmup_step_seconds,
            ready_seconds=baseline.ready_seconds,
            step_seconds=baseline.step_seconds,
            trial_seconds=baseline.trial_seconds(LARGE_SPEEDUP),
            pair_seconds=baseline.pair_seconds(),
            min_pair_seconds=baseline.pair_seconds(LARGE_SPEEDUP),
        )
        self._follow(times, must_fit=self._run.stages.current is None)
        stages = self._run.stages
        if plan := stages.current:
            stages.expect("profile", plan.expected_profile(self._before_profile, baseline.step_seconds))
            if not self._run.folder.spent_seconds:  # the search of a resumed run has begun
                stages.expect("search", plan.expected_search(baseline.trial_seconds()))

    def _follow(self, times: RunTimes, must_fit: bool) -> None:
        """Make the plan and follow it; if nothing fits, raise if something must, else leave all as it is."""
        costs = self._costs(times)
        if plan := plan_stages(costs):
            self._run.stages.follow(plan)
        elif must_fit:
            name = Path(self._run.request.workload.path).name
            why = f"a step takes {format_duration(times.step_seconds)} here"
            raise BudgetSpentError(f"{name}: {too_small(costs, why)}")

    @property
    def profile_seconds(self) -> float:
        """How long looking at the training may take once its process has warmed up; 0 if there is no time for it."""
        return max(0.0, self._run.stages.in_plan("profile") - self._before_profile)

    def _costs(self, times: RunTimes) -> Costs:
        """Return what the parts of the run cost."""
        warmup, step_seconds = times.warmup_step_seconds, times.step_seconds
        request, stages, now = self._run.request, self._run.stages, self._run.clock.spent
        hardware, baseline = stages.spent("hardware", now), stages.spent("baseline", now)
        earlier = max(0.0, now - hardware - baseline)
        training = training_costs(self._facts, step_seconds, times.ready_seconds, len(warmup))

        def evidence(seconds: float, speedup: float) -> float:
            """Return what the strongest evidence that fits into this time takes, or the cheapest if none fits."""
            plan = choose_evidence(training, speedup, seconds, request.options, self._may_only_round)
            return plan.seconds(training, speedup) if self._inexact else 0.0

        settling = min(PROFILE_WARMUP_SECONDS, PROFILE_WARMUP_STEPS * step_seconds)
        start_seconds = times.ready_seconds - sum(warmup)
        self._before_profile = start_seconds + warmup[0] + max(step_seconds, settling)
        return Costs(
            budget=request.budget_seconds - earlier,
            hardware=hardware,
            baseline=baseline + times.still_to_come,
            profile=self._before_profile + MIN_PROFILED_STEPS * step_seconds,
            trial=times.trial_seconds,
            pair=times.pair_seconds,
            min_pair=times.min_pair_seconds,
            min_pairs=MIN_PAIRS,
            pairs=MIN_PAIRS + FURTHER_PAIRS,
            min_evidence=evidence(0.0, LARGE_SPEEDUP),
            evidence=evidence(METRIC_SHARE * request.budget_seconds, 1.0),
            trials=0 if self._has_trials else 1,
            earlier=earlier,
        )
