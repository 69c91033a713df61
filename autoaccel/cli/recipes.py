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
    add_script_arguments,
    make_console,
    print_json,
    training_of,
    use_of,
)
from autoaccel.errors import BadRequestError
from autoaccel.text import say
from autoaccel.units import check_range, parse_duration

if TYPE_CHECKING:
    from rich.console import Console

    from autoaccel.commands.use import RecipeUse


def add_verify(commands: Commands) -> None:
    """Declare the command."""
    verify = commands.add_parser("verify", help="measure a recipe's claim again")
    add_recipe(verify)
    add_model(verify, or_script=True)
    add_script_arguments(verify)
    verify.add_argument(
        "--in-place", action="store_true", help="of a script: measure in its own folder, where it writes, not in a copy"
    )
    verify.add_argument(
        "--budget",
        default="10m",
        help="maximum time, such as 90s, 10m or 1h; pairs of processes are added until it is clear whether the "
        "claim holds (default: 10m)",
    )
    verify.add_argument(
        "--pairs",
        type=int,
        metavar="N",
        help="minimum number of pairs, at least 3, even if the result is clear earlier (default: 5)",
    )
    verify.add_argument("--rounds", type=int, dest="pairs", help=argparse.SUPPRESS)  # its name until it was --pairs
    verify.add_argument("--json", action="store_true", help="print the result as JSON")
    _add_accuracy(verify)
    verify.set_defaults(handler=_verify)


def _add_accuracy(verify: argparse.ArgumentParser) -> None:
    accuracy = verify.add_argument_group("check of the metric on whole planned runs")
    accuracy.add_argument(
        "--accuracy",
        action="store_true",
        help="train planned runs with and without the recipe "
        "from new seeds, until it is clear whether it "
        "keeps the metric or --budget is spent; an "
        "earlier check is resumed",
    )
    accuracy.add_argument("--with", choices=("local", "slurm"), default="local", dest="launcher",
                          help="slurm: submit the check as a job that has a machine to itself")  # fmt: skip
    accuracy.add_argument("--dry-run", action="store_true", help="print the script instead of submitting it")


def add_show(commands: Commands) -> None:
    """Declare the command."""
    show = commands.add_parser("show", help="show a recipe, or the trials of a run")
    show.add_argument("path", metavar="RECIPE|RUN", help="recipe.json or the folder of a run")
    show.set_defaults(handler=_show)


def _verify(parsed: argparse.Namespace) -> int:
    from autoaccel.commands.use import as_said_of_place
    from autoaccel.commands.verifying import verify_recipe
    from autoaccel.report.terminal import print_verification, watch

    use = as_said_of_place(use_of(parsed), parsed.in_place)
    pairs = 5 if parsed.pairs is None else parsed.pairs
    check_range("--pairs", pairs, 3, 10_000, "because fewer prove nothing")
    budget_seconds = parse_duration(parsed.budget)
    _check_accuracy_options(parsed)
    if use.recipe.is_baseline:
        say("The recipe keeps your own settings. It makes no claim, so there is nothing to verify.")
        return EXIT_FASTER
    if parsed.accuracy:
        return _verify_accuracy(parsed, use, budget_seconds)
    console = make_console()
    with watch(make_console(to_stderr=True)) as listener:
        result = verify_recipe(use, pairs, budget_seconds, listener)
    if parsed.json:
        print_json(result)
    else:
        print_verification(console, result)
    return EXIT_FASTER if result.verdict == "holds" else EXIT_NOT_FASTER


def _check_accuracy_options(parsed: argparse.Namespace) -> None:
    if not parsed.accuracy and parsed.launcher != "local":
        raise BadRequestError(
            "--with slurm requires --accuracy. Measure a claim of speed on the machine where it must hold."
        )
    if parsed.dry_run and parsed.launcher != "slurm":
        raise BadRequestError("--dry-run requires --accuracy --with slurm: only these write a script.")
    if parsed.accuracy and parsed.pairs is not None:
        raise BadRequestError(
            "--pairs cannot be combined with --accuracy, which adds runs until the result is clear or --budget is "
            "spent."
        )
    if parsed.launcher == "slurm" and parsed.json:
        raise BadRequestError(
            "--json cannot be combined with --with slurm: the job writes its result beside the recipe."
        )


def _verify_accuracy(parsed: argparse.Namespace, use: RecipeUse, budget_seconds: float) -> int:
    from autoaccel.commands.checking import check_accuracy, check_path
    from autoaccel.report.terminal import print_check, watch

    if parsed.launcher == "slurm":
        return _submit(parsed, budget_seconds)
    with watch(make_console(to_stderr=True)) as listener:
        check = check_accuracy(use, budget_seconds, listener)
    if parsed.json:
        print_json(check)
    else:
        print_check(make_console(), check, check_path(use.file))
    return EXIT_FASTER if check.verdict == "holds" else EXIT_NOT_FASTER


def _submit(parsed: argparse.Namespace, budget_seconds: float) -> int:
    from autoaccel.export.batch import submit
    from autoaccel.export.own_jobs import job_batch
    from autoaccel.records.options import TuneOptions, as_arguments

    accepts = ["--accept-other-machine"] if parsed.accept_other_machine else []
    named = as_arguments(TuneOptions(args=parsed.named, in_place=parsed.in_place))
    check = ["verify", "--accuracy", "--budget", parsed.budget, *accepts, *named, parsed.recipe, *training_of(parsed)]
    batch = job_batch(check, budget_seconds)
    if parsed.dry_run:
        say(batch.script)
    else:
        submit(batch, say)
    return EXIT_FASTER


def _show(parsed: argparse.Namespace) -> int:
    from autoaccel.report.tables import print_trials
    from autoaccel.report.terminal import print_recipe
    from autoaccel.runs.recipes import open_recipe
    from autoaccel.runs.run_folder import RunFolder

    path, console = Path(parsed.path), make_console()
    if not path.is_dir():
        print_recipe(console, open_recipe(path), path)
        _show_check(console, path)
        return EXIT_FASTER
    folder = RunFolder(path)
    record = folder.load_record()
    if folder.recipe.exists():
        print_recipe(console, folder.load_recipe(), folder.recipe)
        _show_check(console, folder.recipe)
    elif record is None:
        raise BadRequestError(f"{path}: this folder does not contain a run. Name recipe.json or the folder of a run.")
    if record is not None:
        print_trials(console, folder.load_trials(), record.baseline_settings)
    return EXIT_FASTER


def _show_check(console: Console, recipe: Path) -> None:
    """Show what whole planned runs have said of a recipe's metric since, if there were any."""
    from autoaccel.commands.checking import check_path
    from autoaccel.records.base import read_json
    from autoaccel.records.check import AccuracyCheck
    from autoaccel.report.terminal import print_check

    if (path := check_path(recipe)).exists():
        console.print()
        print_check(console, read_json(path, AccuracyCheck, "a check of a recipe's metric"), path)
