"""The command `launch`: train with a recipe on one or many machines."""

from __future__ import annotations

import argparse
from pathlib import Path

from autoaccel.cli.common import EXIT_FASTER, Commands, add_model, add_recipe, warn_if_changed, workload_of
from autoaccel.errors import BadRequestError
from autoaccel.export import TARGETS
from autoaccel.text import say


def add_launch(commands: Commands) -> None:
    """Declare the command."""
    launch = commands.add_parser("launch", help="train with a recipe on one or many machines, with your launcher")
    add_recipe(launch)
    add_model(launch)
    _add_launcher_options(launch)
    _add_training_options(launch)
    launch.add_argument(
        "--dry-run", action="store_true", help="print the commands or the Slurm script without starting anything"
    )
    launch.set_defaults(handler=_launch)


def _add_launcher_options(launch: argparse.ArgumentParser) -> None:
    launch.add_argument(
        "--with",
        dest="target",
        metavar="TARGET",
        help=f"launcher: {', '.join(TARGETS)}, "
        "or one that an installed package provides "
        "(default: slurm for several machines if "
        "sbatch is installed, else torchrun for "
        "several ranks, else local)",
    )
    launch.add_argument(
        "--nodes", type=int, metavar="N", help="number of machines (default: as many as --hosts names, else 1)"
    )
    launch.add_argument("--hosts", metavar="A,B", help="names of the machines, that of rank 0 first")
    launch.add_argument("--ranks", type=int, metavar="N", help="ranks per machine (default: the recipe's)")
    launch.add_argument(
        "--max-restarts",
        type=int,
        default=0,
        metavar="N",
        help="maximum number of restarts after a failure, with torchrun or slurm (default: 0)",
    )
    launch.add_argument(
        "--in",
        dest="image",
        default="",
        metavar="IMAGE",
        help="run every rank in this container: IMAGE.sif or a sandbox folder of Apptainer, otherwise a Docker image",
    )
    launch.add_argument("--slurm-option", action="append", default=[], metavar="KEY=VALUE",
                        help="option for sbatch, such as partition=gpu; repeatable")  # fmt: skip
    launch.add_argument("--wait", action="store_true", help="wait for the Slurm job and show its output")


def _add_training_options(launch: argparse.ArgumentParser) -> None:
    launch.add_argument("--seed", type=int, help="seed of the training (default: 0)")
    launch.add_argument("--save", metavar="FILE", help="write the trained weights (a state dict) to FILE")
    launch.add_argument(
        "--checkpoint", metavar="FILE", help="resume from FILE if it exists, and save checkpoints to it"
    )
    launch.add_argument("--checkpoint-every", metavar="TIME", help="interval between checkpoints (default: 10m)")


def _launch(parsed: argparse.Namespace) -> int:
    from autoaccel.export.launching import (
        LaunchOptions,
        RunOptions,
        make_job,
        render_job,
        show_job,
        start_job,
        why_not_here,
    )
    from autoaccel.runs.recipes import open_recipe, refuse_elsewhere

    path, workload = Path(parsed.recipe), workload_of(parsed)
    recipe = open_recipe(path)
    warn_if_changed(recipe.workload.sha256, workload)
    save, checkpoint = (Path(file) if file else None for file in (parsed.save, parsed.checkpoint))
    run = RunOptions(path, workload, parsed.seed, save, checkpoint, parsed.checkpoint_every,
                     parsed.accept_other_machine)  # fmt: skip
    hosts = tuple(filter(None, (parsed.hosts or "").split(",")))
    options = LaunchOptions(parsed.target, parsed.nodes, parsed.ranks, hosts, parsed.max_restarts, parsed.image,
                            tuple(parsed.slurm_option), parsed.wait)  # fmt: skip
    job = make_job(recipe, run, options)
    for left_out in render_job(recipe, job).not_expressed:
        say(f"autoaccel: {left_out}", to_stderr=True)
    reason = why_not_here(job)
    if parsed.dry_run or reason:
        say(show_job(recipe, job).removesuffix("\n"))
        if not parsed.dry_run:
            raise BadRequestError(f"nothing was started: {reason}")
        return EXIT_FASTER
    if job.nodes == 1 and job.target != "slurm":  # its ranks start here
        refuse_elsewhere(recipe, parsed.recipe)
    return start_job(recipe, job, say)
