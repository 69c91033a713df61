"""Train with a recipe to the end: alone, with ranks of one's own, or as one rank of a launcher's job."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from autoaccel.commands.use import RecipeUse
from autoaccel.errors import BadRequestError
from autoaccel.machine.detect import detect_machine
from autoaccel.machine.torch_version import read_torch_version
from autoaccel.records.files import is_regular, is_there
from autoaccel.records.machine import Machine
from autoaccel.records.messages import Failure, Train, TrainResult
from autoaccel.records.recipe import Recipe
from autoaccel.runtime.worker import die_with_parent
from autoaccel.space.knobs import compiles
from autoaccel.workers.compile_cache import CACHE_VARIABLE, open_compile_cache
from autoaccel.workers.describing import probe_machine, workload_error
from autoaccel.workers.shares import context_on
from autoaccel.workers.starter import UnmeasuredRun, WorkerStarter
from autoaccel.workers.temporary import TemporaryFolder
from autoaccel.workers.this_process import this_process

CHECKPOINT_SECONDS = 600.0
"""How often a checkpoint is written: what a killed run loses at most."""

# What may happen to one process without being the fault of its code; what the code raises, it would raise again.
_PASSING = ("crashed", "memory", "exited", "hung")


class TrainingOptions(NamedTuple):
    """What a person asks of a training with a recipe."""

    seed: int = 0
    save_path: Path | None = None  # of the trained weights
    checkpoint_path: Path | None = None
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    max_restarts: int = 0  # after a crash, from the checkpoint; a launcher restarts its ranks itself


def train_with_recipe(use: RecipeUse, options: TrainingOptions, say: Callable[[str], None]) -> TrainResult:
    """Train the planned run to its end with the recipe; the training's own output and a line per epoch are shown.

    Where a launcher's variables say that this process is a rank, it trains as that; else it starts the recipe's ranks
    itself.

    Args:
        use: What to train, and with which recipe.
        options: The seed, what is saved where, and how often it may start again.
        say: Told when the training starts again, and where compiled code cannot be kept.

    Raises:
        BadRequestError: If the recipe was made on another machine.
        WorkloadFailedError: If the training fails.
    """
    recipe, workload = use.recipe, use.workload
    here = this_process()
    if here.is_launched:
        die_with_parent(os.getppid())  # a launcher that is killed leaves ranks behind, which wait for one another
    task = Train(
        seeds=(options.seed,),
        save_path=_absolute(options.save_path),
        announce=True,
        checkpoint_path=_absolute(options.checkpoint_path),
        checkpoint_seconds=options.checkpoint_seconds,
    )
    with TemporaryFolder() as temporary:
        context = context_on(present_machine(use, probes=not here.is_launched), recipe.device)
        cache = _compile_cache(recipe, context.machine, temporary.path, say if here.leads else lambda line: None)
        with WorkerStarter(temporary.path, workload, UnmeasuredRun(here.launched_as, cache)) as starter:
            starter = starter.at(context)
            answer = starter.ask(task, here.settings(recipe), "run", TrainResult, math.inf)
            # A rank's launcher starts all of them again: one alone would wait for the others in vain.
            for restart in range(1, 1 if here.is_launched else options.max_restarts + 1):
                if not (isinstance(answer, Failure) and answer.kind in _PASSING):
                    break
                say(f"{answer.message}; starting again ({restart} of {options.max_restarts})")
                answer = starter.ask(task, here.settings(recipe), "run", TrainResult, math.inf)
    if isinstance(answer, Failure):
        raise workload_error(answer, workload, "while it was trained")
    return answer


def check_checkpoint(path: Path) -> None:
    """Refuse, before a process has loaded torch, a file that is there and is no checkpoint.

    Raises:
        BadRequestError: If it is not what torch.save() writes: an archive, in a regular file.
    """
    if not is_there(path):
        return
    if not is_regular(path) or not zipfile.is_zipfile(path):
        raise BadRequestError(f"--checkpoint {path}: must be a checkpoint written by autoaccel. Name another file.")


def _compile_cache(recipe: Recipe, machine: Machine, temporary: Path, say: Callable[[str], None]) -> Path | None:
    """Return where compiled code is kept from run to run; None: where the user says, or nothing is compiled.

    Args:
        recipe: What to train with.
        machine: This one.
        temporary: A folder for this run alone, where the user's own cannot be used.
        say: Told if it cannot, and why.
    """
    if not compiles(recipe.settings) or os.environ.get(CACHE_VARIABLE):
        return None
    try:
        return open_compile_cache(machine)
    except OSError as error:
        reason = error.strerror or str(error)
        file = f" ({error.filename})" if error.filename else ""
        say(
            f"compiled code is not kept, so the next run compiles again: {reason}{file}. Set {CACHE_VARIABLE} to a "
            "writable folder."
        )
        return temporary / "compiled"


def present_machine(use: RecipeUse, probes: bool) -> Machine:
    """Return this machine; refuse a recipe that was made elsewhere.

    Args:
        use: What is to be used here.
        probes: Whether to start a process that asks torch. If not, what it answered the recipe's author stands: a
            launcher starts many ranks at once, and has told torch another number of threads already.

    Raises:
        BadRequestError: Unless the machine is the same, or another is accepted.
    """
    if probes:
        with TemporaryFolder() as temporary, WorkerStarter(temporary.path) as starter:
            machine = probe_machine(starter)
    else:
        torch = use.recipe.machine.torch
        here = torch and msgspec.structs.replace(torch, version=read_torch_version())
        machine = msgspec.structs.replace(detect_machine(), torch=here)
    return use.checked(machine)


def _absolute(path: Path | None) -> str | None:
    return str(path.absolute()) if path else None
