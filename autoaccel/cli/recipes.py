"""The commands `verify` and `show`: measure a recipe's claim again, or look at it."""

from __future__ import annotations

import argparse
from pathlib import Path

from autoaccel.cli.common import (
    EXIT_FASTER,
    EXIT_NOT_FASTER,
    Commands,
    add_model,
    add_recipe,
    make_console,
    print_json,
    warn_if_changed,
    workload_of,
)
from autoaccel.errors import BadRequestError
from autoaccel.units import parse_duration


def add_verify(commands: Commands) -> None:
    """Declare the command."""
    verify = commands.add_parser("verify", help="measure a recipe's claim again")
    add_recipe(verify)
    add_model(verify)
    verify.add_argument(
        "--budget",
        default="10m",
        help="the most time this may take, such as 90s, 10m, 1h; pairs of processes are added until it is clear "
        "whether the claim holds (default: 10m)",
    )
    verify.add_argument("--rounds", type=int, default=5, metavar="N", help="measure at least so many pairs, 3 or more, "
                        "however clear it is before (default: 5)")  # fmt: skip
    verify.add_argument("--json", action="store_true", help="print the result as JSON")
    verify.set_defaults(handler=_verify)


def add_show(commands: Commands) -> None:
    """Declare the command."""
    show = commands.add_parser("show", help="show a recipe, or the trials of a run")
    show.add_argument("path", metavar="RECIPE|RUN", help="recipe.json, or the folder of a run")
    show.set_defaults(handler=_show)


def _verify(parsed: argparse.Namespace) -> int:
    from autoaccel.records.recipe import read_recipe
    from autoaccel.report.terminal import print_verification, watch
    from autoaccel.session.replaying import verify_recipe

    path, workload = Path(parsed.recipe), workload_of(parsed)
    recipe = read_recipe(path)
    if parsed.rounds < 3:
        raise BadRequestError(f"--rounds must be at least 3: fewer prove nothing, got {parsed.rounds}.")
    budget_seconds = parse_duration(parsed.budget)
    warn_if_changed(recipe.workload.sha256, workload)
    if recipe.is_baseline:
        print("The recipe is your own settings: it claims nothing, so there is nothing to verify.")
        return EXIT_FASTER
    console = make_console()
    with watch(make_console(to_stderr=True)) as listener:
        result = verify_recipe(
            recipe, path, workload, parsed.rounds, budget_seconds, parsed.accept_other_machine, listener
        )
    if parsed.json:
        print_json(result)
    else:
        print_verification(console, result)
    return EXIT_FASTER if result.verdict == "holds" else EXIT_NOT_FASTER


def _show(parsed: argparse.Namespace) -> int:
    from autoaccel.records.recipe import read_recipe
    from autoaccel.report.tables import print_trials
    from autoaccel.report.terminal import print_recipe
    from autoaccel.session.run_folder import RunFolder

    path, console = Path(parsed.path), make_console()
    if not path.is_dir():
        print_recipe(console, read_recipe(path), path)
        return EXIT_FASTER
    folder = RunFolder(path)
    state = folder.load_state()
    if folder.recipe.exists():
        print_recipe(console, folder.load_recipe(), folder.recipe)
    elif state is None:
        raise BadRequestError(f"{path}: there is no run in this folder. Name recipe.json, or the folder of a run.")
    if state is not None:
        print_trials(console, folder.load_trials(), state.baseline_settings)
    return EXIT_FASTER
