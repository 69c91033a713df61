"""The first look at a training: how long it may take, and what it says of the budget if it takes longer."""

from __future__ import annotations

from autoaccel.records.machine import Machine
from autoaccel.records.progress import Note
from autoaccel.records.workload import TrainingFacts
from autoaccel.runs.least_run import least_costs, least_times, too_slow
from autoaccel.runs.plan import enough_budget
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.session.limits import FIRST_LOOK_SHARE, FIRST_LOOK_STARTS
from autoaccel.units import format_duration
from autoaccel.workers.describing import LookEndedError, probe_and_describe
from autoaccel.workers.look_wait import LookWait


def look_wait_of(run: TuningRun) -> LookWait:
    """Return how long the first look may take.

    Nobody knows how long a training takes to its first step, and one that takes long has not failed: it may take all
    the time that is left.

    Raises:
        BudgetSpentError: If no time is left.
    """
    left = run.clock.timeout("the training was built")

    def tell_late(seconds: float) -> None:
        budget = enough_budget(least_costs(run.request.budget_seconds, left, least_times(seconds, 0.0)))
        run.tell(
            Note(
                f"no step was made within {format_duration(seconds)}. If each process takes as long or longer, the "
                f"budget is too small, and --budget {budget} or more is needed; what it takes is looked at all the same"
            )
        )

    return LookWait(left, FIRST_LOOK_SHARE * run.request.budget_seconds, left / FIRST_LOOK_STARTS, tell_late)


def first_look(run: TuningRun, wait: LookWait) -> tuple[Machine, TrainingFacts]:
    """Return what the machine and the training are.

    Raises:
        AutoaccelError: See `probe_and_describe`.
        BudgetSpentError: If it takes longer than it may, with a budget that would do.
    """
    workload, left = run.request.workload, run.clock.left
    try:
        return probe_and_describe(run.starter, workload, wait)
    except LookEndedError as ended:
        waited, until_step = wait.waited_seconds, wait.first_step_seconds
        if until_step is None:
            why, times = f"no step was made within {format_duration(waited)}", least_times(waited, 0.0)
        else:
            step, other = format_duration(until_step), format_duration(waited)
            why = f"the first step was made after {step}, and no other within {other}"
            times = least_times(until_step, waited)
        costs = least_costs(run.request.budget_seconds, left, times)
        raise too_slow(workload, costs, why, str(ended)) from None
