"""Measure a recipe's claim again."""

from __future__ import annotations

from autoaccel.bench.pairs import FreshPairs
from autoaccel.bench.turns import TurnTaker
from autoaccel.commands.use import RecipeUse
from autoaccel.machine.own_use import machine_to_itself
from autoaccel.proof.proof import Prover
from autoaccel.records.check import Verification
from autoaccel.records.messages import Failure
from autoaccel.records.progress import BaselineMeasured, Listener, StageStarted, WaitStarted, ignore
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import Request
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison
from autoaccel.runs.clock import BudgetClock
from autoaccel.runs.kept_apart import tell_protection, tell_written
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.script_wishes import as_tuned
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.space.domains import check_recipe_here
from autoaccel.space.knobs import KnobContext
from autoaccel.statistics.claims import judge_claim
from autoaccel.statistics.turn_plan import plan_turns
from autoaccel.workers.describing import START_SECONDS, describe_workload, probe_machine, workload_error
from autoaccel.workers.starter import WorkerStarter
from autoaccel.workers.temporary import TemporaryFolder


def verify_recipe(use: RecipeUse, min_pairs: int, budget_seconds: float, listener: Listener = ignore) -> Verification:
    """Measure baseline and recipe again, in fresh pairs of processes, until it is clear whether the claim holds.

    Args:
        use: Whose claim it is, and the training.
        min_pairs: Pairs that are measured at least, two or more.
        budget_seconds: When to end if it is not clear by then.
        listener: Hears of each pair.

    Raises:
        BadRequestError: If the recipe was made on another machine, or there is nothing to verify.
        WorkloadFailedError: If the training fails.
    """
    recipe, workload = use.recipe, use.workload
    with (
        machine_to_itself(lambda sentence: listener(WaitStarted(sentence))),
        TemporaryFolder() as temporary,
        WorkerStarter(temporary.path, workload, in_place=recipe.in_place) as starter,
    ):
        tell_protection(starter, listener)
        probed = use.checked(probe_machine(starter))
        facts = as_tuned(describe_workload(starter, workload, START_SECONDS), recipe)
        context = KnobContext(probed, facts)
        check_recipe_here(recipe, [context], str(use.file))
        starter = starter.at(context)
        request = Request(workload=workload, budget_seconds=budget_seconds, constraint=Constraint(0.0, True))
        run = TuningRun(request, RunFolder(temporary.path), starter, BudgetClock(budget_seconds), listener)
        baseline = recipe.baseline
        run.tell(BaselineMeasured(baseline.settings, baseline.step_seconds, recipe.projection.baseline_total_seconds))
        run.tell(StageStarted("confirm", "fresh pairs of processes, until it is clear whether the claim holds"))
        step_seconds = recipe.baseline.step_seconds
        taker = TurnTaker(plan_turns(step_seconds, facts.device), facts.steps_per_epoch, [step_seconds])
        pairs = FreshPairs(run, baseline.settings, taker, fresh=True)
        prover = Prover(pairs.compare, facts, run.clock, run.tell)
        measured = verify_claim(recipe.comparison, recipe.settings, prover, min_pairs)
        tell_written(starter, listener)
    if isinstance(measured, Failure):
        raise workload_error(measured, workload, "while it was measured")
    return measured


def verify_claim(claimed: Comparison, settings: Settings, prover: Prover, min_pairs: int) -> Verification | Failure:
    """Return what pairs of processes, at least so many, say of what is claimed of settings."""
    measured = prover.measure(settings, min_pairs, lambda found: judge_claim(claimed, found) != "inconclusive")
    if isinstance(measured, Failure):
        return measured
    return Verification(claimed, measured, judge_claim(claimed, measured) if measured else "inconclusive")
