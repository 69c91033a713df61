"""The command `run`: train to the end with a recipe, or without one, and tune meanwhile."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from autoaccel.cli.common import (
    EXIT_FASTER,
    Commands,
    add_model,
    add_recipe,
    add_script_arguments,
    make_console,
    use_of,
    workload_of,
)
from autoaccel.errors import BadRequestError
from autoaccel.text import say

if TYPE_CHECKING:
    from autoaccel.records.workload import Workload


NO_RECIPE = ""
"""Stands in the place of a recipe where a command line names none."""


def with_recipe(arguments: Sequence[str]) -> list[str]:
    """Return the command line of `run`, in which `NO_RECIPE` is named if it names a training alone.

    argparse takes what comes first for the recipe, wherever options stand; one that may be missing it cannot have.
    """
    first = arguments[1] if len(arguments) > 1 else ""
    names_training = first.startswith("-") or first.partition(":")[0].endswith(".py")
    if names_training and not any(one.endswith(".json") for one in arguments):
        return [arguments[0], NO_RECIPE, *arguments[1:]]
    return list(arguments)


def add_run(commands: Commands) -> None:
    """Declare the command."""
    run = commands.add_parser("run", help="train to the end with a recipe; without one, tune while it trains")
    add_recipe(run)
    add_model(run, or_script=True)
    add_script_arguments(run)
    run.add_argument("--seed", type=int, default=0, help="seed of the training (default: 0)")
    run.add_argument("--save", metavar="FILE", help="write the trained weights (a state dict) to FILE")
    run.add_argument("--checkpoint", metavar="FILE", help="resume from FILE if it exists, and save checkpoints to it")
    run.add_argument(
        "--checkpoint-every", default="10m", metavar="TIME", help="interval between checkpoints (default: 10m)"
    )
    run.add_argument(
        "--max-restarts", type=int, default=0, metavar="N", help="maximum number of restarts after a crash (default: 0)"
    )
    run.add_argument("--space", default="default", metavar="NAME",
                     help="search space of a training that is tuned while it runs: "
                          "default, everything, exact-only, quick or a .toml file (default: default)")  # fmt: skip
    run.add_argument("--no-history", action="store_true",
                     help="without a recipe: do not begin with what earlier runs found, nor keep it")  # fmt: skip
    run.add_argument("--explain", action="store_true", help="first show which cores, threads and GPU each rank gets")
    run.set_defaults(handler=_run)


def _check_options(parsed: argparse.Namespace, workload: Workload) -> None:
    """Refuse for a script what only our own loop could do: it saves what it likes, and has its own seed."""
    given = {"--seed": parsed.seed, "--save": parsed.save, "--checkpoint": parsed.checkpoint,
             "--max-restarts": parsed.max_restarts, "--explain": parsed.explain}  # fmt: skip
    if refused := [option for option, value in given.items() if value]:
        workload.must_be_function(f"{', '.join(refused)} cannot be used with a script: pass its own options after --.")


def _tune_live(parsed: argparse.Namespace) -> NoReturn:
    """Become the training, tuned while it trains."""
    from autoaccel.commands.live import become_tuned
    from autoaccel.units import MAX_SEED, check_range

    workload = workload_of(parsed)
    _check_options(parsed, workload)
    check_range("--seed", parsed.seed, 0, MAX_SEED)
    for option in ("save", "checkpoint", "explain", "max_restarts"):
        if getattr(parsed, option):
            raise BadRequestError(f"--{option.replace('_', '-')}: with a recipe only: `autoaccel run RECIPE FILE`.")
    become_tuned(workload, parsed.space, parsed.seed, not parsed.no_history)


def _run(parsed: argparse.Namespace) -> int:
    if parsed.recipe == NO_RECIPE:
        return _tune_live(parsed)
    from autoaccel.commands.running import TrainingOptions, check_checkpoint, train_with_recipe
    from autoaccel.commands.scripts import become_script
    from autoaccel.records.files import check_output
    from autoaccel.report.tables import print_shares
    from autoaccel.report.terminal import print_training
    from autoaccel.units import MAX_SEED, check_range, parse_duration
    from autoaccel.workers.this_process import this_process

    use = use_of(parsed)
    recipe = use.recipe
    _check_options(parsed, use.workload)
    become_script(use)
    save, checkpoint = (Path(file) if file else None for file in (parsed.save, parsed.checkpoint))
    for option, file in (("--save", save), ("--checkpoint", checkpoint)):
        if file is not None:
            check_output(option, file)
    if checkpoint is not None:
        check_checkpoint(checkpoint)
    check_range("--max-restarts", parsed.max_restarts, 0, 1000)
    check_range("--seed", parsed.seed, 0, MAX_SEED)
    seconds = parse_duration(parsed.checkpoint_every)
    options = TrainingOptions(parsed.seed, save, checkpoint, seconds, parsed.max_restarts)
    here = this_process()
    if parsed.explain:
        print_shares(make_console(), here.shares_of_all(recipe))
    result = train_with_recipe(use, options, lambda line: say(f"autoaccel: {line}", to_stderr=True))
    if here.leads:
        print_training(result, recipe)
    return EXIT_FASTER
