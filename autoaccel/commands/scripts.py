"""Run a script with a recipe, from its first line to its last."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec

from autoaccel.commands.running import present_machine
from autoaccel.commands.use import RecipeUse
from autoaccel.records.messages import KeepPromise, Train, WorkerSpec
from autoaccel.records.settings import changed
from autoaccel.space.knobs import KNOBS, arguments_with, compiles, count_processes
from autoaccel.workers.processes import WholeRun, processes_of
from autoaccel.workers.shares import context_on
from autoaccel.workers.starter import UnmeasuredRun, WorkerStarter
from autoaccel.workers.temporary import TemporaryFolder


def become_script(use: RecipeUse) -> None:
    """Become the script, to which the recipe is applied: streams, signals and exit code are its own.

    This returns if the training is a function.

    Raises:
        BadRequestError: If the recipe was made on another machine, or for no script.
    """
    processes_of(use.workload).become(partial(_whole_run, use))


def _whole_run(use: RecipeUse) -> WholeRun:
    recipe, workload = use.recipe, use.workload
    recipe.seen.must_be_script(
        f"{use.file}: made for a file whose build() returns a Training, but {Path(workload.path).name} is a script. "
        "Tune the script."
    )
    settings = recipe.settings
    with TemporaryFolder() as temporary:
        context = context_on(present_machine(use, probes=True), recipe.device)
        with WorkerStarter(temporary.path, workload, UnmeasuredRun()) as starter:
            environment = starter.at(context).environment_of_run(settings)
    own, promise = recipe.baseline.settings, KeepPromise(str(use.file), recipe.comparison.low)
    is_watched = (
        recipe.device == "cpu"
        and workload.launcher is None
        and count_processes(settings) == 1
        and not compiles(settings)
        and all(name in KNOBS for name in changed(settings, own))
    )
    spec = WorkerSpec(
        task=promise if is_watched and changed(settings, own) else Train(seeds=()),
        workload=msgspec.structs.replace(workload, arguments=arguments_with(workload.arguments, recipe.settings)),
        settings=settings,
        found=recipe.baseline.settings,
        script=recipe.script,
    )
    return spec, environment
