"""Run a script with a recipe, from its first line to its last."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import msgspec

from autoaccel.commands.running import present_machine
from autoaccel.commands.use import RecipeUse
from autoaccel.errors import BadRequestError
from autoaccel.records.messages import Train, WorkerSpec
from autoaccel.records.recipe import Recipe
from autoaccel.records.settings import changed, format_value
from autoaccel.records.workload import Script, Workload
from autoaccel.space.knobs.arguments import PREFIX, arguments_with, flag_of, is_given
from autoaccel.workers.becoming import become
from autoaccel.workers.shares import context_on, settings_here
from autoaccel.workers.starter import UnmeasuredRun, WorkerStarter
from autoaccel.workers.temporary import TemporaryFolder


def run_script(use: RecipeUse) -> NoReturn:
    """Become the script, to which the recipe is applied: streams, signals and exit code are its own.

    Raises:
        BadRequestError: If the recipe was made on another machine, or for no script.
    """
    recipe = use.recipe
    if recipe.script is None:
        raise BadRequestError(
            f"{use.file}: made for a file whose build() returns a Training, but {Path(use.workload.path).name} is a "
            "script. Tune the script."
        )
    settings = settings_here(recipe, None)
    with TemporaryFolder() as temporary:
        context = context_on(present_machine(use, probes=True), recipe.device)
        with WorkerStarter(temporary.path, use.workload, UnmeasuredRun()) as starter:
            environment = starter.at(context).environment_of_run(settings)
    spec = WorkerSpec(
        task=Train(seeds=()),
        workload=_with_arguments(use.workload, recipe),
        settings=settings,
        found=recipe.baseline.settings,
        script=recipe.script,
    )
    become(spec, environment)


def _with_arguments(workload: Workload, recipe: Recipe) -> Workload:
    """Return the script with the arguments that the recipe has found better, but for those that a person gives."""
    if not isinstance(workload, Script):
        return workload
    better = changed(recipe.settings, recipe.baseline.settings)
    wanted = {name: value for name, value in better.items() if name.startswith(PREFIX)}
    given = [name for name in wanted if is_given(name.removeprefix(PREFIX), workload.arguments)]
    for name in given:
        flag = flag_of(name.removeprefix(PREFIX))
        print(f"autoaccel: {flag} is as you give it; the recipe has {format_value(wanted.pop(name))}.", file=sys.stderr)
    return msgspec.structs.replace(workload, arguments=arguments_with(workload.arguments, wanted))
