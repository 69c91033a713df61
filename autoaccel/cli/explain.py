"""The command `explain`: what to change in a script by hand."""

from __future__ import annotations

import argparse
from pathlib import Path

from autoaccel.cli.common import EXIT_FASTER, Commands, add_model, add_recipe, warn_if_changed, workload_of


def add_explain(commands: Commands) -> None:
    """Declare the command."""
    explain = commands.add_parser("explain", help="show what to change in a script by hand, as a recipe does it")
    add_recipe(explain)
    add_model(explain, or_script=True)
    explain.set_defaults(handler=_explain)


def _explain(parsed: argparse.Namespace) -> int:
    from autoaccel.commands.explaining import explain
    from autoaccel.commands.use import RecipeUse
    from autoaccel.report.patch import patch_lines
    from autoaccel.session.recipes import open_recipe

    path, workload = Path(parsed.recipe), workload_of(parsed)
    recipe = open_recipe(path)
    if recipe.is_baseline:
        print("The recipe keeps your own settings, so there is nothing to change.")
        return EXIT_FASTER
    warn_if_changed(recipe.workload.sha256, workload)
    for line in patch_lines(explain(RecipeUse(recipe, path, workload, True))):
        print(line)
    return EXIT_FASTER
