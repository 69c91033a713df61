"""Measure again: a recipe's claim, or where the time of a step goes."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import NamedTuple

from autoaccel.errors import BadRequestError
from autoaccel.launch.runner import Runner
from autoaccel.records.machine import Machine, fingerprint_difference
from autoaccel.records.progress import BaselineMeasured, Listener, StageStarted, ignore
from autoaccel.records.recipe import Constraint, Recipe
from autoaccel.records.request import Request
from autoaccel.records.trial import (
    Comparison,
    Failure,
)
from autoaccel.records.workload import Workload
from autoaccel.session.clock import Clock
from autoaccel.session.pairs import FreshPairs
from autoaccel.session.proof import Prover
from autoaccel.session.run import Run
from autoaccel.session.run_folder import RunFolder
from autoaccel.session.workers import describe_workload, probe_machine, turn_seconds_for, workload_error
from autoaccel.space.knobs import Place

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


class Verification(NamedTuple):
    """A claim measured again."""

    claimed: Comparison
    measured: Comparison

    @property
    def holds(self) -> bool:
        """Whether the measured interval does not lie wholly below the claimed one."""
        return self.measured.high >= self.claimed.low


def verify_recipe(
    recipe: Recipe, where: Path, workload: Workload, rounds: int, accept_other: bool, listener: Listener = ignore
) -> Verification:
    """Measure baseline and recipe again, in this many fresh pairs of processes.

    Raises:
        BadRequestError: If the recipe was made on another machine, or there is nothing to verify.
        WorkloadFailedError: If the training fails.
    """
    with tempfile.TemporaryDirectory(prefix="autoaccel-") as folder, Runner(Path(folder), workload) as runner:
        probed = check_machine(recipe, runner, where, accept_other)
        facts = describe_workload(runner, workload, START_SECONDS)
        request = Request(workload=workload, budget_seconds=math.inf, constraint=Constraint(0.0, True))
        run = Run(request, RunFolder(Path(folder)), runner, Clock(math.inf), listener)
        own = recipe.baseline
        run.tell(BaselineMeasured(own.settings, own.step_seconds, recipe.projection.baseline_total_seconds))
        run.tell(StageStarted("confirm", f"{rounds} fresh pairs of processes"))
        runner.enter(Place(probed, facts))
        step_seconds = recipe.baseline.step_seconds
        turn_seconds = turn_seconds_for(step_seconds)
        pairs = FreshPairs(run, own.settings, facts.steps_per_epoch, turn_seconds, step_seconds, fresh=True)
        measured = Prover(run, facts, pairs).measure(recipe.settings, rounds)
    if isinstance(measured, Failure):
        raise workload_error(measured, workload, "while it was measured")
    return Verification(recipe.comparison, measured)
