"""The command `explain`: what to change in a script by hand."""

from __future__ import annotations

import argparse
import sys

from autoaccel.cli.common import EXIT_FASTER, Commands, add_model, add_recipe, add_script_arguments, use_of
from autoaccel.text import say


def add_explain(commands: Commands) -> None:
    """Declare the command."""
    explain = commands.add_parser("explain", help="show what to change in a script by hand, as a recipe does it")
    add_recipe(explain)
    add_model(explain, or_script=True)
    add_script_arguments(explain)
    explain.set_defaults(handler=_explain)


def _explain(parsed: argparse.Namespace) -> int:
    from autoaccel.commands.explaining import explain
    from autoaccel.report.patch import patch_lines

    use = use_of(parsed, here=False)
    if use.recipe.is_baseline:
        say("The recipe keeps your own settings, so there is nothing to change.")
        return EXIT_FASTER
    # For `patch` the lines of the person's own script must be as they are; a terminal only shows them.
    show = say if sys.stdout.isatty() else print
    for line in patch_lines(explain(use)):
        show(line)
    return EXIT_FASTER
