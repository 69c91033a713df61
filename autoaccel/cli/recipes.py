"""The commands `verify` and `show`: measure a recipe's claim again, or look at it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from rich.console import Console

    from autoaccel.records.recipe import Recipe
    from autoaccel.records.workload import Workload


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
    verify.add_argument("--rounds", type=int, metavar="N", help="measure at least so many pairs, 3 or more, "
                        "however clear it is before (default: 5)")  # fmt: skip
    verify.add_argument("--json", action="store_true", help="print the result as JSON")
    _add_accuracy(verify)
    verify.set_defaults(handler=_verify)


def _add_accuracy(verify: argparse.ArgumentParser) -> None:
    accuracy = verify.add_argument_group("the metric, on whole planned runs")
    accuracy.add_argument("--accuracy", action="store_true", help="train planned runs with and without the recipe from "
                          "new seeds, until it is clear whether it keeps the metric or --budget is spent; go on where "
                          "an earlier check ended")  # fmt: skip
    accuracy.add_argument("--with", choices=("local", "slurm"), default="local", dest="launcher",
                          help="slurm: submit the check as a job, alone on a machine")  # fmt: skip
    accuracy.add_argument("--dry-run", action="store_true", help="print the script instead of submitting it")


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
    rounds = 5 if parsed.rounds is None else parsed.rounds
    if rounds < 3:
        raise BadRequestError(f"--rounds must be at least 3: fewer prove nothing, got {rounds}.")
    budget_seconds = parse_duration(parsed.budget)
    _check_accuracy_options(parsed)
    warn_if_changed(recipe.workload.sha256, workload)
    if recipe.is_baseline:
        print("The recipe is your own settings: it claims nothing, so there is nothing to verify.")
        return EXIT_FASTER
    if parsed.accuracy:
        return _verify_accuracy(parsed, recipe, workload, budget_seconds)
    console = make_console()
    with watch(make_console(to_stderr=True)) as listener:
        result = verify_recipe(recipe, path, workload, rounds, budget_seconds, parsed.accept_other_machine, listener)
    if parsed.json:
        print_json(result)
    else:
        print_verification(console, result)
    return EXIT_FASTER if result.verdict == "holds" else EXIT_NOT_FASTER


def _check_accuracy_options(parsed: argparse.Namespace) -> None:
    if not parsed.accuracy and parsed.launcher != "local":
        raise BadRequestError("--with slurm goes with --accuracy: a claim of speed is measured where it is to hold.")
    if parsed.dry_run and parsed.launcher != "slurm":
        raise BadRequestError("--dry-run goes with --accuracy --with slurm: without them no script is made.")
    if parsed.accuracy and parsed.rounds is not None:
        raise BadRequestError("--rounds does not go with --accuracy: runs are added until it is clear, or --budget.")
    if parsed.launcher == "slurm" and parsed.json:
        raise BadRequestError("--json does not go --with slurm: the job writes its result beside the recipe.")


def _verify_accuracy(parsed: argparse.Namespace, recipe: Recipe, workload: Workload, budget_seconds: float) -> int:
    from autoaccel.report.terminal import print_check, watch
    from autoaccel.session.checking import check_accuracy, check_path

    path = Path(parsed.recipe)
    if parsed.launcher == "slurm":
        return _submit(parsed, budget_seconds)
    with watch(make_console(to_stderr=True)) as listener:
        check = check_accuracy(recipe, path, workload, budget_seconds, parsed.accept_other_machine, listener)
    if parsed.json:
        print_json(check)
    else:
        print_check(make_console(), check, check_path(path))
    return EXIT_FASTER if check.verdict == "holds" else EXIT_NOT_FASTER


def _submit(parsed: argparse.Namespace, budget_seconds: float) -> int:
    from autoaccel.launch.submitting import job_script, submit

    training = [parsed.model, *(["--", *parsed.arguments] if parsed.arguments else [])]
    accepts = ["--accept-other-machine"] if parsed.accept_other_machine else []
    check = ["verify", "--accuracy", "--budget", parsed.budget, *accepts, parsed.recipe, *training]
    script = job_script(check, budget_seconds, Path.cwd())
    print(script if parsed.dry_run else submit(script))
    return EXIT_FASTER


def _show(parsed: argparse.Namespace) -> int:
    from autoaccel.records.recipe import read_recipe
    from autoaccel.report.tables import print_trials
    from autoaccel.report.terminal import print_recipe
    from autoaccel.session.run_folder import RunFolder

    path, console = Path(parsed.path), make_console()
    if not path.is_dir():
        print_recipe(console, read_recipe(path), path)
        _show_check(console, path)
        return EXIT_FASTER
    folder = RunFolder(path)
    state = folder.load_state()
    if folder.recipe.exists():
        print_recipe(console, folder.load_recipe(), folder.recipe)
        _show_check(console, folder.recipe)
    elif state is None:
        raise BadRequestError(f"{path}: there is no run in this folder. Name recipe.json, or the folder of a run.")
    if state is not None:
        print_trials(console, folder.load_trials(), state.baseline_settings)
    return EXIT_FASTER


def _show_check(console: Console, recipe: Path) -> None:
    """Show what whole planned runs have said of a recipe's metric since, if there were any."""
    from autoaccel.records.base import read_json
    from autoaccel.records.check import AccuracyCheck
    from autoaccel.report.terminal import print_check
    from autoaccel.session.checking import check_path

    if (path := check_path(recipe)).exists():
        console.print()
        print_check(console, read_json(path, AccuracyCheck, "a check of a recipe's metric"), path)
