"""The command `launch`: train with a recipe on one or many machines."""

from __future__ import annotations

import argparse
from pathlib import Path

from autoaccel.cli.common import EXIT_FASTER, Commands, add_model, add_recipe, warn_if_changed, workload_of
from autoaccel.errors import BadRequestError


def add_launch(commands: Commands) -> None:
    """Declare the command."""
    launch = commands.add_parser("launch", help="train with a recipe on one or many machines, with your launcher")
    add_recipe(launch)
    add_model(launch)
    launch.add_argument("--with", dest="launcher", choices=("torchrun", "mpirun", "slurm", "local"),
                        help="what starts the ranks (default: slurm for several machines if sbatch is here, else "
                        "torchrun for several ranks, else local)")  # fmt: skip
    launch.add_argument("--nodes", type=int, metavar="N", help="machines (default: as many as --hosts names, or one)")
    launch.add_argument("--hosts", metavar="A,B", help="the machines' names, rank 0's first")
    launch.add_argument("--ranks", type=int, metavar="N", help="ranks on each machine (default: the recipe's)")
    launch.add_argument("--max-restarts", type=int, default=0, metavar="N", help="how often a training that failed "
                        "starts again; with torchrun and slurm (default: 0)")  # fmt: skip
    launch.add_argument("--in", dest="image", default="", metavar="IMAGE", help="run every rank in this container: "
                        "IMAGE.sif or a folder of Apptainer's, else an image of Docker's")  # fmt: skip
    launch.add_argument("--slurm-option", action="append", default=[], metavar="KEY=VALUE",
                        help="one of sbatch's, such as partition=gpu; may be given several times")  # fmt: skip
    launch.add_argument("--wait", action="store_true", help="wait for Slurm's job, and show what it printed")
    launch.add_argument("--seed", type=int, help="of the training (default: 0)")
    launch.add_argument("--save", metavar="FILE", help="write the trained weights (a state dict) to this file")
    launch.add_argument("--checkpoint", metavar="FILE", help="go on from this file if it is there; write it meanwhile")
    launch.add_argument("--checkpoint-every", metavar="TIME", help="how often (default: 10m)")
    launch.add_argument("--dry-run", action="store_true", help="print the commands, or Slurm's script; start nothing")
    launch.set_defaults(handler=_launch)


def _launch(parsed: argparse.Namespace) -> int:
    from autoaccel.records.recipe import read_recipe
    from autoaccel.session.launching import (
        LaunchOptions,
        RunOptions,
        make_launch,
        show_launch,
        start_launch,
        why_outside,
    )

    path, workload = Path(parsed.recipe), workload_of(parsed)
    recipe = read_recipe(path)
    warn_if_changed(recipe.workload.sha256, workload)
    save, checkpoint = (Path(file) if file else None for file in (parsed.save, parsed.checkpoint))
    run = RunOptions(parsed.seed, save, checkpoint, parsed.checkpoint_every, parsed.accept_other_machine)
    hosts = tuple(filter(None, (parsed.hosts or "").split(",")))
    options = LaunchOptions(parsed.launcher, parsed.nodes, parsed.ranks, hosts, parsed.max_restarts, parsed.image,
                            tuple(parsed.slurm_option))  # fmt: skip
    request = make_launch(recipe, path, workload, run, options)
    reason = why_outside(request)
    if parsed.dry_run or reason:
        print(show_launch(request), end="")
        if not parsed.dry_run:
            raise BadRequestError(f"nothing was started: {reason}")
        return EXIT_FASTER
    return start_launch(request, parsed.wait, lambda line: print(line, flush=True))
