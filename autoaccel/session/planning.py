"""Make the plan of a run from what the first steps of its baseline show, and anew when more is known."""

from __future__ import annotations

from pathlib import Path

from autoaccel.errors import BudgetSpentError
from autoaccel.launch.measuring import Measuring
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.workload import TrainingFacts
from autoaccel.session.plan import Costs, plan_stages, too_small
from autoaccel.session.proof import metric_steps
from autoaccel.session.run import Run
from autoaccel.session.workers import turn_seconds_for
from autoaccel.session.yardstick import Yardstick
from autoaccel.space.knobs import is_exact
from autoaccel.statistics.deciding import CONFIRMING_PAIRS, LEAST_PAIRS

_PROFILE_WARMUP_SECONDS, _PROFILE_WARMUP_STEPS = 2.0, 6  # of a profile: what comes first, but at least one step
_LEAST_PROFILED_STEPS = 3.5  # as it is, recorded, which takes half as long again, and with the model watched
_BASELINE_TURNS, _LEAST_TRIAL_TURNS, _PAIR_TURNS = 6, 4, 8  # of each of the two


class Planner:
    """Divides the budget of one run, and tells what of it is divided how."""

    def __init__(self, run: Run, facts: TrainingFacts, own: Settings, space: SearchSpace) -> None:
        """Begin with nothing known, before the search has begun.

        Args:
            run: What all stages share.
            facts: Of the training.
            own: The user's settings.
            space: What may be searched.
        """
        self._run = run
        self._facts = facts
        self._earlier = run.stages.spent("search", run.clock.spent)
        self._before_profile = 0.0  # seconds: until its process has warmed up
        # Every open knob changed, to any other value: risks are those of knobs.
        other = {**space.fixed, **{name: values[-1] for name, values in space.open.items()}}
        self._is_exact = is_exact(other, own, space.inexact)

    def after_first_steps(self, baseline: Measuring) -> None:
        """Make the plan from the first steps of the baseline.

        By the quickest of them: a neighbour of a shared machine may have slowed the others down, and to give up what
        could be done is worse than to try what cannot.

        Raises:
            BudgetSpentError: If not even the leanest run fits into the budget, with one that would do.
        """
        warmup = baseline.measurement.warmup_step_seconds
        step_seconds = min(warmup)
        start_seconds = baseline.ready_seconds - sum(warmup)
        baseline_seconds = self._run.stages.spent("baseline", self._run.clock.spent)
        baseline_seconds += _BASELINE_TURNS * _turn_seconds(step_seconds)
        costs = self._costs(step_seconds, start_seconds, warmup[0], baseline.ready_seconds, baseline_seconds)
        plan = plan_stages(costs)
        if plan is None:
            raise BudgetSpentError(f"{Path(self._run.request.workload.path).name}: {too_small(costs, step_seconds)}")
        self._run.stages.follow(plan)

    def anew(self, yardstick: Yardstick) -> None:
        """Make the plan once more, now that the baseline was measured; keep to the first if nothing fits any more."""
        warmup = yardstick.measurement.warmup_step_seconds
        start_seconds = yardstick.ready_seconds - sum(warmup)
        baseline_seconds = self._run.stages.spent("baseline", self._run.clock.spent)
        costs = self._costs(yardstick.step_seconds, start_seconds, warmup[0], yardstick.ready_seconds, baseline_seconds)
        if plan := plan_stages(costs):
            self._run.stages.follow(plan)

    @property
    def profile_seconds(self) -> float:
        """How long looking at the training may take once its process has warmed up; 0 if there is no time for it."""
        plan = self._run.stages.current
        planned = plan.seconds["profile"] if plan else 0.0
        return max(0.0, planned - self._before_profile)

    def _costs(
        self,
        step_seconds: float,
        start_seconds: float,
        first_step_seconds: float,
        ready_seconds: float,
        baseline_seconds: float,
    ) -> Costs:
        request, stages, spent = self._run.request, self._run.stages, self._run.clock.spent
        planned_steps = self._facts.planned_steps
        steps = metric_steps(planned_steps, request.metric_repeats, request.budget_seconds, step_seconds)
        least_steps = metric_steps(planned_steps, request.metric_repeats, 0.0, step_seconds)
        trained = 0.0 if self._is_exact else 2 * request.metric_repeats * step_seconds  # seconds for each of the steps
        warmup_seconds = max(step_seconds, min(_PROFILE_WARMUP_SECONDS, _PROFILE_WARMUP_STEPS * step_seconds))
        self._before_profile = start_seconds + first_step_seconds + warmup_seconds
        return Costs(
            budget=request.budget_seconds - self._earlier,
            earlier=self._earlier,
            hardware=stages.spent("hardware", spent),
            baseline=baseline_seconds,
            profile=self._before_profile + _LEAST_PROFILED_STEPS * step_seconds,
            trial=ready_seconds + 2 * _LEAST_TRIAL_TURNS * _turn_seconds(step_seconds),
            pair=2 * ready_seconds + 2 * _PAIR_TURNS * _turn_seconds(step_seconds),
            least_pairs=LEAST_PAIRS,
            pairs=LEAST_PAIRS + CONFIRMING_PAIRS,
            least_evidence=trained * least_steps,
            evidence=trained * steps,
            trials=0 if self._earlier else 1,
        )


def _turn_seconds(step_seconds: float) -> float:
    """Return what a turn takes: one step that does not count, and three or more that do."""
    return max(turn_seconds_for(step_seconds), 3 * step_seconds) + step_seconds
