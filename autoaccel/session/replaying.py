"""Measure a recipe's claim again."""

from __future__ import annotations

import tempfile
from pathlib import Path

from autoaccel.errors import BadRequestError
from autoaccel.launch.runner import Runner
from autoaccel.records.machine import Machine, fingerprint_difference
from autoaccel.records.progress import BaselineMeasured, Listener, StageStarted, ignore
from autoaccel.records.recipe import Constraint, Recipe
from autoaccel.records.request import Request
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison, Failure, Verification
from autoaccel.records.workload import Workload
from autoaccel.session.clock import Clock
from autoaccel.session.pairs import FreshPairs
from autoaccel.session.proof import Prover
from autoaccel.session.run import Run
from autoaccel.session.run_folder import RunFolder
from autoaccel.session.turn_plan import plan_turns
from autoaccel.session.workers import describe_workload, probe_machine, workload_error
from autoaccel.space.knobs import Place
from autoaccel.statistics.claims import judge_claim

START_SECONDS = 600.0  # for a build() outside any budget


def check_machine(recipe: Recipe, runner: Runner, where: Path, accept_other: bool) -> Machine:
    """Return this machine; refuse a recipe that was made elsewhere.

    Raises:
        BadRequestError: Unless the machine is the same, or another is accepted.
    """
    machine = probe_machine(runner)
    difference = fingerprint_difference(recipe.machine, machine)
    if difference and not accept_other:
        raise BadRequestError(
            f"{where}: made on another machine ({difference}). Tune again, or pass --accept-other-machine."
        )
    return machine


def verify_recipe(
    recipe: Recipe,
    where: Path,
    workload: Workload,
    rounds: int,
    budget_seconds: float,
    accept_other: bool,
    listener: Listener = ignore,
) -> Verification:
    """Measure baseline and recipe again, in fresh pairs of processes, until it is clear whether the claim holds.

    Args:
        recipe: Whose claim it is.
        where: Its file.
        workload: The training.
        rounds: Pairs that are measured at least, two or more.
        budget_seconds: When to end if it is not clear by then.
        accept_other: Whether the recipe may come from another machine.
        listener: Hears of each pair.

    Raises:
        BadRequestError: If the recipe was made on another machine, or there is nothing to verify.
        WorkloadFailedError: If the training fails.
    """
    with tempfile.TemporaryDirectory(prefix="autoaccel-") as folder, Runner(Path(folder), workload) as runner:
        probed = check_machine(recipe, runner, where, accept_other)
        facts = describe_workload(runner, workload, START_SECONDS)
        request = Request(workload=workload, budget_seconds=budget_seconds, constraint=Constraint(0.0, True))
        run = Run(request, RunFolder(Path(folder)), runner, Clock(budget_seconds), listener)
        own = recipe.baseline
        run.tell(BaselineMeasured(own.settings, own.step_seconds, recipe.projection.baseline_total_seconds))
        run.tell(StageStarted("confirm", "fresh pairs of processes, until it is clear whether the claim holds"))
        runner.enter(Place(probed, facts))
        step_seconds = recipe.baseline.step_seconds
        plan = plan_turns(step_seconds, facts.device)
        pairs = FreshPairs(run, own.settings, facts.steps_per_epoch, plan, step_seconds, fresh=True)
        measured = verify_claim(recipe.comparison, recipe.settings, Prover(run, facts, pairs), rounds)
    if isinstance(measured, Failure):
        raise workload_error(measured, workload, "while it was measured")
    return measured


def verify_claim(claimed: Comparison, settings: Settings, prover: Prover, rounds: int) -> Verification | Failure:
    """Return what pairs of processes, at least so many, say of what is claimed of settings."""
    measured = prover.measure(settings, rounds, lambda found: judge_claim(claimed, found) != "inconclusive")
    if isinstance(measured, Failure):
        return measured
    return Verification(claimed, measured, judge_claim(claimed, measured) if measured else "inconclusive")
