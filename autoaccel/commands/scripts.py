"""Run a script with a recipe, from its first line to its last."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import msgspec

from autoaccel.commands.running import present_machine
from autoaccel.commands.use import RecipeUse
from autoaccel.errors import BadRequestError
from autoaccel.records.messages import Train, WorkerSpec
from autoaccel.records.workload import Script
from autoaccel.space.knobs import arguments_with
from autoaccel.workers.becoming import become
from autoaccel.workers.shares import context_on, settings_here
from autoaccel.workers.starter import UnmeasuredRun, WorkerStarter
from autoaccel.workers.temporary import TemporaryFolder


def run_script(use: RecipeUse) -> NoReturn:
    """Become the script, to which the recipe is applied: streams, signals and exit code are its own.

    Raises:
        BadRequestError: If the recipe was made on another machine, or for no script.
    """
    recipe, script = use.recipe, use.workload
    if recipe.script is None or not isinstance(script, Script):
        raise BadRequestError(
            f"{use.file}: made for a file whose build() returns a Training, but {Path(script.path).name} is a "
            "script. Tune the script."
        )
    settings = settings_here(recipe, None)
    with TemporaryFolder() as temporary:
        context = context_on(present_machine(use, probes=True), recipe.device)
        with WorkerStarter(temporary.path, use.workload, UnmeasuredRun()) as starter:
            environment = starter.at(context).environment_of_run(settings)
    spec = WorkerSpec(
        task=Train(seeds=()),
        workload=msgspec.structs.replace(script, arguments=arguments_with(script.arguments, recipe.settings)),
        settings=settings,
        found=recipe.baseline.settings,
        script=recipe.script,
    )
    become(spec, environment)
