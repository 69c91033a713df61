"""What a run takes at least, by what is known of a training before its baseline was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from autoaccel.errors import BudgetSpentError
from autoaccel.records.workload import Workload
from autoaccel.runs.limits import LARGE_SPEEDUP, MIN_WARMUP_STEPS, SHORT_STEP_SECONDS
from autoaccel.runs.plan import Costs, too_small
from autoaccel.statistics.deciding import MIN_PAIRS
from autoaccel.statistics.turn_plan import pair_seconds, pair_turns, plan_turns, trial_seconds


class RunTimes(NamedTuple):
    """What is known of the time that things take, in seconds."""

    warmup_step_seconds: Sequence[float]  # each of the baseline's first steps
    ready_seconds: float  # until it has started and warmed up
    step_seconds: float
    trial_seconds: float  # of settings with a large speed-up
    pair_seconds: float  # a pair of processes that does not train to its end
    min_pair_seconds: float  # the same with a large speed-up
    still_to_come: float = 0.0  # until the baseline is measured


def least_times(start_seconds: float, step_seconds: float) -> RunTimes:
    """Return what the parts of a run take at least, before its baseline was started.

    Args:
        start_seconds: Until a process begins with its first step.
        step_seconds: What a step takes; 0: not known.
    """
    step_seconds = step_seconds or SHORT_STEP_SECONDS
    turns = plan_turns(step_seconds)
    ready = start_seconds + MIN_WARMUP_STEPS * step_seconds
    return RunTimes(
        warmup_step_seconds=(step_seconds,) * MIN_WARMUP_STEPS,
        ready_seconds=ready,
        step_seconds=step_seconds,
        trial_seconds=trial_seconds(turns, ready, turns.min_turns, LARGE_SPEEDUP),
        pair_seconds=pair_seconds(turns, ready, pair_turns(turns, 2 * ready, 0.0)),
        min_pair_seconds=pair_seconds(turns, ready, pair_turns(turns, 2 * ready, 0.0, LARGE_SPEEDUP), LARGE_SPEEDUP),
        still_to_come=ready + turns.turns_alone * turns.turn_seconds(),
    )


def least_costs(budget_seconds: float, left: float, times: RunTimes) -> Costs:
    """Return what a run costs at least whose first look takes until a second step was made.

    Args:
        budget_seconds: The budget.
        left: Of it when the look began.
        times: See `least_times`.
    """
    return Costs(
        budget=left,
        hardware=times.ready_seconds,
        baseline=times.still_to_come,
        profile=0.0,
        trial=times.trial_seconds,
        pair=times.pair_seconds,
        min_pair=times.min_pair_seconds,
        min_pairs=MIN_PAIRS,
        pairs=MIN_PAIRS,
        min_evidence=0.0,
        evidence=0.0,
        earlier=budget_seconds - left,
    )


def too_slow(workload: Workload, costs: Costs, why: str, log_tail: str) -> BudgetSpentError:
    """Return the error that a training has not failed, but takes more time than the budget has.

    Args:
        workload: The training.
        costs: Of the run at least.
        why: What takes so long, as a clause.
        log_tail: The end of its log, which says where it is: it may wait for something that does not come.
    """
    said = f"{Path(workload.path).name}: {too_small(costs, why)}"
    return BudgetSpentError(f"{said}\n\n{log_tail}" if log_tail else said)
