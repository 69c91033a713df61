"""The plan that the first steps of a baseline lead to, and the budgets that they refuse."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from autoaccel.bench.rounding import UPDATE_STEPS
from autoaccel.errors import BudgetSpentError
from autoaccel.records.options import TuneOptions
from autoaccel.records.progress import ignore
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import Request
from autoaccel.records.space import SearchSpace
from autoaccel.records.workload import BuildFunction
from autoaccel.runs.clock import BudgetClock
from autoaccel.runs.limits import BUDGET_MARGIN
from autoaccel.runs.plan import Plan
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.session.planning import Planner
from autoaccel.space.knobs import KnobContext
from autoaccel.statistics.deciding import MIN_PAIRS, decided_speedup
from autoaccel.statistics.turn_plan import pair_seconds, pair_turns, plan_turns, trial_seconds, turns_worth
from autoaccel.units import parse_duration
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.starter import WorkerStarter

STEP, START = 2.0, 5.0
READY = START + 2 * STEP


def planned(folder: Path, context: KnobContext, budget: float) -> Plan:
    """Return the plan of a long training whose steps take two seconds."""
    assert context.training is not None
    training = msgspec.structs.replace(context.training, epochs=1000)
    request = Request(BuildFunction("/m.py", "build", ""), budget, Constraint(0.01, False), TuneOptions())
    run = TuningRun(request, RunFolder(folder), cast("WorkerStarter", None), BudgetClock(budget), ignore)
    space = SearchSpace("test", {"precision.autocast": ("off", "bfloat16")}, {}, {})
    baseline = SimpleNamespace(
        measurement=SimpleNamespace(warmup_step_seconds=(STEP, STEP), overhead_seconds=START),
        ready_seconds=READY,
        ready_again_seconds=READY,
    )
    Planner(run, KnobContext(context.machine, training), space).after_first_steps(cast("Measuring", baseline))
    assert run.stages.current is not None
    return run.stages.current


def looked(folder: Path, context: KnobContext, budget: float, first_step: float, step: float, epochs: int) -> None:
    """Let a planner hear what the first look at a training shows."""
    assert context.training is not None
    training = msgspec.structs.replace(context.training, epochs=epochs)
    request = Request(BuildFunction("/m.py", "build", ""), budget, Constraint(0.01, False), TuneOptions())
    run = TuningRun(request, RunFolder(folder), cast("WorkerStarter", None), BudgetClock(budget), ignore)
    Planner(run, KnobContext(context.machine, training), SearchSpace("test", {}, {}, {})).after_look(first_step, step)


@pytest.mark.parametrize(
    ("budget", "first_step", "step", "epochs", "named"),
    [
        (200.0, 70.0, 0.01, 100_000, "11m"),
        (120.0, 22.0, 20.0, 1000, "16m"),
        (300.0, 70.0, 0.01, 100_000, ""),  # a second start may take half as long, as files are no longer cold
        (200.0, 70.0, 0.01, 1, ""),  # nothing can be won, so no budget would do
    ],
)
def test_the_first_look_refuses_what_is_far_too_small(
    tmp_path: Path, context: KnobContext, budget: float, first_step: float, step: float, epochs: int, named: str
) -> None:
    if not named:
        looked(tmp_path, context, budget, first_step, step, epochs)
        return
    with pytest.raises(BudgetSpentError, match="the first step was made after") as refused:
        looked(tmp_path, context, budget, first_step, step, epochs)
    assert str(refused.value).endswith(f"Use --budget {named}.")
    looked(tmp_path, context, parse_duration(named), first_step, step, epochs)


def test_the_leanest_run_is_costed_with_the_speedup_that_the_fewest_pairs_prove(
    tmp_path: Path, context: KnobContext
) -> None:
    """Under settings that are no faster than the user's own, nothing is proven in two pairs."""
    turns, large = plan_turns(STEP), decided_speedup(MIN_PAIRS)
    pair = pair_seconds(turns, READY, pair_turns(turns, 2 * READY, turns.usual_deviation, large), large)
    updates = 2 * START + UPDATE_STEPS * STEP * (1 + 1 / large)
    min_proof = MIN_PAIRS * pair + updates
    assert planned(tmp_path, context, 600.0).min_proof == pytest.approx(min_proof)
    trial = trial_seconds(turns, READY, turns_worth(turns, READY, turns.usual_deviation, large), large)
    alone = turns.turns_alone * turns.turn_seconds() + 1.0  # the baseline's, and the report
    least = alone + BUDGET_MARGIN * (trial + min_proof)
    assert planned(tmp_path, context, least + 1.0).budget == pytest.approx(least + 1.0, abs=0.5)
    with pytest.raises(BudgetSpentError, match="if the machine becomes slower"):
        planned(tmp_path, context, least - 1.0)
