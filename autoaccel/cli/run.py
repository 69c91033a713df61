"""The command `run`: train to the end with a recipe."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from autoaccel.cli.common import (
    EXIT_FASTER,
    Commands,
    add_model,
    add_recipe,
    make_console,
    warn_if_changed,
    workload_of,
)
from autoaccel.errors import BadRequestError


def add_run(commands: Commands) -> None:
    """Declare the command."""
    run = commands.add_parser("run", help="train to the end with a recipe")
    add_recipe(run)
    add_model(run)
    run.add_argument("--seed", type=int, default=0, help="of the training (default: 0)")
    run.add_argument("--save", metavar="FILE", help="write the trained weights (a state dict) to this file")
    run.add_argument("--checkpoint", metavar="FILE", help="go on from this file if it is there; write it meanwhile")
    run.add_argument("--checkpoint-every", default="10m", metavar="TIME", help="how often (default: 10m)")
    run.add_argument("--max-restarts", type=int, default=0, metavar="N", help="how often a crashed training starts "
                     "again by itself (default: 0)")  # fmt: skip
    run.add_argument("--explain", action="store_true", help="show first which cores, threads and GPU each rank gets")
    run.set_defaults(handler=_run)


def _run(parsed: argparse.Namespace) -> int:
    from autoaccel.records.recipe import read_recipe
    from autoaccel.report.tables import print_shares
    from autoaccel.report.terminal import print_training
    from autoaccel.session.training import TrainingRun, explain_shares, train_with_recipe
    from autoaccel.units import parse_duration

    path, workload = Path(parsed.recipe), workload_of(parsed)
    recipe = read_recipe(path)
    warn_if_changed(recipe.workload.sha256, workload)
    save, checkpoint = (Path(file) if file else None for file in (parsed.save, parsed.checkpoint))
    for option, file in (("--save", save), ("--checkpoint", checkpoint)):
        if file is not None and not file.absolute().parent.is_dir():
            raise BadRequestError(f"{option} {file}: there is no such folder.")
    if parsed.max_restarts < 0:
        raise BadRequestError(f"--max-restarts must be at least 0, got {parsed.max_restarts}.")
    seconds = parse_duration(parsed.checkpoint_every)
    run = TrainingRun(parsed.seed, save, checkpoint, seconds, parsed.max_restarts, parsed.accept_other_machine)
    if parsed.explain:
        print_shares(make_console(), explain_shares(recipe))
    trained = train_with_recipe(recipe, path, workload, run, lambda line: print(f"autoaccel: {line}", file=sys.stderr))
    if trained.rank is None or trained.rank.rank == 0:
        print_training(trained.result, recipe)
    return EXIT_FASTER
