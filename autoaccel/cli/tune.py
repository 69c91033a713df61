"""The command `tune`: alone, sharing a study, or submitted to Slurm."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel.cli.common import (
    EXIT_FASTER,
    EXIT_NOT_FASTER,
    Commands,
    add_model,
    make_console,
    print_json,
    training_of,
    workload_of,
)
from autoaccel.cli.options import add_options
from autoaccel.errors import BadRequestError
from autoaccel.records.options import OPTIONS, as_arguments, options_in
from autoaccel.text import say
from autoaccel.units import check_range

if TYPE_CHECKING:
    from rich.console import Console

    from autoaccel.records.request import Request


def add_tune(commands: Commands) -> None:
    """Declare the command."""
    tune = commands.add_parser("tune", help="search for faster settings, prove them, and write recipe.json")
    add_model(tune, or_script=True)
    add_options(tune)
    tune.add_argument("--json", action="store_true", help="print the recipe as JSON; progress goes to stderr")
    _add_sharing(tune)
    tune.set_defaults(handler=_tune)


def _add_sharing(tune: argparse.ArgumentParser) -> None:
    sharing = tune.add_argument_group("several machines of the same kind, each running the same command")
    sharing.add_argument(
        "--storage",
        metavar="PATH|URL",
        help="where the machines share trials: a *.journal file "
        "in a folder that all of them see, postgresql://..., "
        "mysql://... or sqlite:///...; a password is better set as "
        "AUTOACCEL_STORAGE_PASSWORD",
    )
    sharing.add_argument(
        "--study",
        metavar="NAME",
        help="name of the study in that storage (default: one for each training, search space and kind of machine)",
    )
    sharing.add_argument("--with", choices=("local", "slurm"), default="local", dest="launcher",
                         help="slurm: submit the workers as jobs, each with a machine to itself")  # fmt: skip
    sharing.add_argument("--workers", type=int, metavar="N", help="number of workers to submit with --with slurm")
    sharing.add_argument("--dry-run", action="store_true", help="print the script instead of submitting it")


def _tune(parsed: argparse.Namespace) -> int:
    import msgspec

    from autoaccel.api import begun, check_values_here, continued, make_request, open_folder, run_request
    from autoaccel.report.commands import resume_command
    from autoaccel.report.terminal import print_recipe, watch
    from autoaccel.runs.sharing import find_study

    options, workload = options_in(parsed), workload_of(parsed)
    request = make_request(workload, options)
    _check_sharing(parsed)
    if parsed.launcher == "slurm":
        return _submit(parsed, request)
    check_values_here(options.fixed)
    address = find_study(parsed.storage, parsed.study) if parsed.storage else None
    folder = open_folder(Path(workload.path).stem, options.output, options.resume)
    parsed.folder = folder.path
    if options.resume and not parsed.arguments:
        parsed.arguments = list(folder.own_arguments())
        request = msgspec.structs.replace(request, workload=workload_of(parsed))
    console = make_console(to_stderr=parsed.json)
    command = "" if address else resume_command(request.workload, folder.path, None, request.options)
    continued(request, folder)  # what is refused is refused before anything in the folder changes
    try:
        with folder:
            request = begun(request, folder)
            if command:
                _print_line(console, f"If this run is interrupted, resume it with: {command}")
            with watch(console) as listener:
                recipe = run_request(request, folder, listener, address)
    except KeyboardInterrupt:
        if address:
            again = " with --resume" if options.output and not options.resume else ""
            console.print(f"Finished trials are kept in the study. Run the same command again{again} to resume.")
        else:
            if folder.recipe.exists() and not (proven := folder.load_recipe()).is_baseline:
                print_recipe(console, proven, folder.recipe)
                console.print()
            kept = f"{len(folder.load_trials())} finished trials are kept in {folder.path}."
            _print_line(console, f"{kept} Resume with: {command}")
        raise
    if parsed.json:
        print_json(recipe)
    elif recipe is not None:
        print_recipe(console, recipe, folder.recipe)
    return EXIT_NOT_FASTER if recipe is not None and recipe.is_baseline else EXIT_FASTER


def _print_line(console: Console, line: str) -> None:
    console.print(line, markup=False, soft_wrap=True)  # a line that was broken could not be pasted


def _check_sharing(parsed: argparse.Namespace) -> None:
    if not parsed.storage and (parsed.study or parsed.workers or parsed.launcher != "local"):
        raise BadRequestError("--study, --workers and --with slurm require --storage, where the workers share a study.")
    if parsed.launcher == "local" and (parsed.workers or parsed.dry_run):
        raise BadRequestError(
            "--workers and --dry-run require --with slurm. Without it, run this command by hand on every machine: "
            "one worker each."
        )
    if parsed.launcher == "slurm" and (parsed.workers is None or parsed.workers < 1):
        raise BadRequestError(f"--with slurm requires --workers of at least 1, got {parsed.workers}.")
    check_range("--workers", parsed.workers or 1, 1, 10_000)
    if parsed.launcher == "slurm" and (parsed.resume or parsed.json):
        raise BadRequestError("--resume and --json cannot be combined with --with slurm: its workers are new jobs.")


def _submit(parsed: argparse.Namespace, request: Request) -> int:
    from autoaccel.export.batch import submit
    from autoaccel.export.own_jobs import TuneCommand, array_batch

    if "://" in parsed.storage:
        from autoaccel.search.databases import check_is_public

        check_is_public(parsed.storage)
    each = dataclasses.replace(request.options, output=None)  # its folder is numbered
    options = as_arguments(each, always=[option.name for option in OPTIONS])
    options += ["--storage", parsed.storage, *(["--study", parsed.study] if parsed.study else [])]
    output = parsed.output or f"autoaccel-runs/{Path(request.workload.path).stem}"
    batch = array_batch(TuneCommand(options, training_of(parsed), output), parsed.workers, request.budget_seconds)
    if parsed.dry_run:
        say(batch.script)
    else:
        submit(batch, say)
    return EXIT_FASTER
