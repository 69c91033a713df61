"""Start a training with a recipe, on one machine or many, with a launcher that people already run."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from autoaccel.errors import BadRequestError
from autoaccel.export.containers import own_image
from autoaccel.export.registry import find_target
from autoaccel.export.starting import command_line, start_rendered
from autoaccel.export.target import StartingTarget
from autoaccel.records.files import check_output
from autoaccel.records.launch import Job, Rendered
from autoaccel.records.recipe import Recipe
from autoaccel.records.workload import Workload
from autoaccel.space.knobs import count_processes
from autoaccel.text import shell_word
from autoaccel.units import MAX_CPUS, MAX_SEED, check_range, excerpt, parse_digits, parse_duration


class RunOptions(NamedTuple):
    """What `autoaccel run` is told, on every rank."""

    recipe: Path
    workload: Workload
    seed: int | None = None
    save: Path | None = None
    checkpoint: Path | None = None
    checkpoint_every: str | None = None
    accept_other_machine: bool = False


class LaunchOptions(NamedTuple):
    """What a person asks about where and how to start; None: whatever fits the rest."""

    target: str | None = None
    nodes: int | None = None
    ranks: int | None = None  # on each machine
    hosts: tuple[str, ...] = ()
    max_restarts: int = 0
    image: str = ""
    slurm_options: tuple[str, ...] = ()  # KEY=VALUE
    waits: bool = False


def make_job(recipe: Recipe, run: RunOptions, options: LaunchOptions, environ: Mapping[str, str] = os.environ) -> Job:
    """Return the job that a person asked for; nothing is started.

    Raises:
        BadRequestError: If it cannot be done as it stands.
    """
    ranks = count_processes(recipe.settings) if options.ranks is None else options.ranks
    check_range("--ranks", ranks, 1, MAX_CPUS)
    nodes = (len(options.hosts) or 1) if options.nodes is None else options.nodes
    check_range("--nodes", nodes, 1, 100_000)
    target = find_target(options.target or default_target(recipe, nodes, ranks))
    _check(options, nodes, target.name)
    job = Job(
        target=target.name,
        name=re.sub(r"[^\w.-]", "-", Path(run.workload.path).stem),
        folder=str(Path.cwd()),
        python=sys.executable,
        arguments=_run_arguments(run),
        nodes=nodes,
        ranks=ranks,
        hosts=options.hosts,
        main_address=options.hosts[0] if options.hosts else environ.get("MASTER_ADDR") or socket.gethostname(),
        main_port=_port(environ.get("MASTER_PORT") or "29500"),
        max_restarts=options.max_restarts,
        image=options.image,
        own_image=own_image(environ),
        mounts=_mounts([run.recipe, Path(run.workload.path), run.save, run.checkpoint]),
        passed_on=tuple(name for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH") if environ.get(name)),
        slurm_options=dict(_slurm_option(text) for text in options.slurm_options),
        is_root=os.geteuid() == 0,
        waits=options.waits,
    )
    for reason in target.check(recipe, job):
        raise BadRequestError(reason)
    return job


def default_target(recipe: Recipe, nodes: int, ranks: int) -> str:
    """Return the target if the person names none."""
    if nodes > 1 and shutil.which("sbatch"):
        return "slurm"
    return "local" if nodes == ranks == count_processes(recipe.settings) == 1 else "torchrun"


def render_job(recipe: Recipe, job: Job) -> Rendered:
    """Return a job as its target understands it."""
    return find_target(job.target).render(recipe, job)


def show_job(recipe: Recipe, job: Job) -> str:
    """Return what to submit or type, ready to be copied: a file such as a batch script, or all files and a command."""
    rendered = render_job(recipe, job)
    if len(rendered.files) == 1:
        return next(iter(rendered.files.values()))
    files = [f"# {name}\n{text.rstrip()}\n" for name, text in rendered.files.items()]
    on = ""
    if rendered.machines > 1:
        hosts = ", ".join(job.hosts) or f"{shell_word(job.main_address)} and {rendered.machines - 1} more"
        on = f"# On each of {rendered.machines} machines, in {shell_word(job.folder)}: {hosts}\n"
    return "\n".join([*files, f"{on}{command_line(rendered)}\n"])


def why_not_here(job: Job) -> str:
    """Return why the command must be typed somewhere else; empty if it can be typed here."""
    target = find_target(job.target)
    return target.why_not_here(job) if isinstance(target, StartingTarget) else ""


def start_job(recipe: Recipe, job: Job, say: Callable[[str], None]) -> int:
    """Start the training; return its exit code. It waits for a queued job only if the job says so.

    Args:
        recipe: What it trains with.
        job: As `make_job` returned it.
        say: Is told what to do next, line by line.

    Raises:
        BadRequestError: If a program is missing, or refuses the job.
    """
    target = find_target(job.target)
    if isinstance(target, StartingTarget):
        return target.start(recipe, job, say)
    return start_rendered(target.render(recipe, job), job, say)


def _port(text: str) -> int:
    port = parse_digits(text, 5)
    if port is None or not 0 < port < 65536:
        raise BadRequestError(f"MASTER_PORT must be a port, from 1 to 65535, got {excerpt(text)}. Correct or unset it.")
    return port


def _check(options: LaunchOptions, nodes: int, target: str) -> None:
    """Refuse what no target could do."""
    hosts = options.hosts
    if hosts and len(hosts) != nodes:
        raise BadRequestError(f"--hosts must name as many machines as --nodes, got {len(hosts)} for {nodes}.")
    if wrong := [host for host in hosts if not re.fullmatch(r"\w[\w.-]*", host)]:
        raise BadRequestError(f"--hosts must be names separated by commas, such as a,b; got {wrong[0]!r}.")
    check_range("--max-restarts", options.max_restarts, 0, 1000)
    if options.slurm_options and target != "slurm":
        raise BadRequestError(f"--slurm-option requires --with slurm, but the launcher is {target}.")


def _slurm_option(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not re.fullmatch(r"[a-z][a-z-]*", name) or not value.isprintable():
        raise BadRequestError(
            "--slurm-option must be a long option of sbatch without the dashes, such as partition=gpu or "
            f"time=02:00:00; got {text!r}."
        )
    return name, value


def _run_arguments(run: RunOptions) -> tuple[str, ...]:
    """Return autoaccel's arguments of one rank; all files by absolute paths, for other machines start elsewhere."""
    workload = run.workload
    arguments = ["run", str(run.recipe.absolute()), *workload.target(workload.path)]
    if run.seed is not None:
        check_range("--seed", run.seed, 0, MAX_SEED)
        arguments += ["--seed", str(run.seed)]
    for option, file in (("--save", run.save), ("--checkpoint", run.checkpoint)):
        if file is None:
            continue
        check_output(option, file)
        arguments += [option, str(file.absolute())]
    if run.checkpoint_every is not None:
        parse_duration(run.checkpoint_every)  # refused here, not on every rank
        arguments += ["--checkpoint-every", run.checkpoint_every]
    if run.accept_other_machine:
        arguments.append("--accept-other-machine")
    return (*arguments, "--", *workload.arguments) if workload.arguments else tuple(arguments)


def _mounts(files: Sequence[Path | None]) -> tuple[str, ...]:
    """Return the folders of the files and the working folder, none of which lies in another."""
    folders = {Path.cwd(), *(file.absolute().parent for file in files if file is not None)}
    return tuple(sorted(str(folder) for folder in folders if not folders & set(folder.parents)))
