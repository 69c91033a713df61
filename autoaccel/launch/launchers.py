"""What to type for a launcher to start every rank of a training; nothing is started here.

Every rank is `autoaccel run RECIPE FILE`, which finds its place in the job by the launcher's variables. Sources: the
manuals torchrun (PyTorch), mpirun(1) (Open MPI 4.1 and 5.0), sbatch(1), srun(1), apptainer-exec(1), docker-run(1).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from autoaccel.machine.ranks import RANK_VARIABLES
from autoaccel.records.launch import Launcher, LaunchPlan, LaunchRequest

_RENDEZVOUS_PORT = 29400  # torchrun's own for c10d
_SLURM_OUTPUT = "{name}-%j.out"


def plan_launch(request: LaunchRequest) -> LaunchPlan:
    """Return what to type to start the request's training."""
    return _PLANS[request.launcher](request)


def _local(request: LaunchRequest) -> LaunchPlan:
    return LaunchPlan(_contained(request, _rank(request)))


def _torchrun(request: LaunchRequest) -> LaunchPlan:
    options = ["--nproc-per-node", str(request.ranks)]
    if request.nodes == 1:
        options.insert(0, "--standalone")
    else:
        endpoint = f"{request.main_address}:{_RENDEZVOUS_PORT}"
        options = ["--nnodes", str(request.nodes), *options]
        options += ["--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", request.name]
    if request.max_restarts:
        options += ["--max-restarts", str(request.max_restarts)]
    python = _python(request)
    command = (python, "-m", "torch.distributed.run", *options, "-m", "autoaccel", *request.arguments)
    # torchrun gives each rank one thread unless told.
    # Its agents keep one store for all restarts unless told, in which new ranks find the addresses of dead ones; and
    # machines do not agree on how many restarts there were (pytorch#135712).
    environment = {"OMP_NUM_THREADS": str(request.threads), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    # One container for each machine, with launcher and ranks in it: outside, there may be no torch.
    return LaunchPlan(_contained(request, command, environment), environment, machines=request.nodes)


def _mpirun(request: LaunchRequest) -> LaunchPlan:
    command = ["mpirun"]
    if request.is_root:
        command.append("--allow-run-as-root")
    # Unless told, Open MPI binds each rank to one core, and all its threads with it.
    command += ["--bind-to", "none", "-n", str(request.nodes * request.ranks)]
    if request.hosts:
        command += ["--host", ",".join(f"{host}:{request.ranks}" for host in request.hosts)]
    elif request.ranks > request.physical_cores:
        command.append("--oversubscribe")
    if request.nodes > 1:
        command += ["-x", f"MASTER_ADDR={request.main_address}", "-x", f"MASTER_PORT={request.main_port}"]
        for name in request.passed_on:
            command += ["-x", name]
    return LaunchPlan((*command, *_contained(request, _rank(request), RANK_VARIABLES)))


def _slurm(request: LaunchRequest) -> LaunchPlan:
    options = {
        "job-name": request.name,
        "nodes": str(request.nodes),
        "ntasks-per-node": str(request.ranks),
        # All of a machine's cores, not the threads alone: loader workers need some, and the recipe was tuned on all.
        "cpus-per-task": str(max(1, request.usable_cores // request.ranks)),
        **({"gpus-per-node": str(request.gpus)} if request.gpus else {}),
        **({"nodelist": ",".join(request.hosts)} if request.hosts else {}),
        "chdir": request.folder,
        "output": _SLURM_OUTPUT.format(name=request.name),
        "open-mode": "append",  # a job that starts again must not wipe what it printed before
        "requeue": "",
        **request.slurm_options,
    }
    header = [f"#SBATCH --{name}" + (f"={shlex.quote(value)}" if value else "") for name, value in options.items()]
    # Since 22.05 srun does not take over --cpus-per-task. A rank that dies ends the others, which would wait for it.
    step = ["srun", "--cpu-bind=none", f"--cpus-per-task={options['cpus-per-task']}", "--kill-on-bad-exit=1"]
    command = shlex.join([*step, *_contained(request, _rank(request), RANK_VARIABLES)])
    lines = ["#!/bin/bash", *header, "", command]
    if request.max_restarts:
        lines += [
            "status=$?",
            f'if [ "$status" -ne 0 ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {request.max_restarts} ]; then',
            '    scontrol requeue "$SLURM_JOB_ID"',
            "fi",
            'exit "$status"',
        ]
    return LaunchPlan(("sbatch", "--parsable"), script="\n".join(lines) + "\n")


def slurm_output(request: LaunchRequest, job: str) -> Path:
    """Return the file that Slurm writes a job's output to; `job` is its number, as `sbatch --parsable` tells it."""
    pattern = request.slurm_options.get("output") or _SLURM_OUTPUT.format(name=request.name)
    return Path(request.slurm_options.get("chdir") or request.folder, pattern.replace("%j", job))


_PLANS: Mapping[Launcher, Callable[[LaunchRequest], LaunchPlan]] = {
    "torchrun": _torchrun,
    "mpirun": _mpirun,
    "slurm": _slurm,
    "local": _local,
}


def _python(request: LaunchRequest) -> str:
    return "python" if request.image else request.python


def _rank(request: LaunchRequest) -> tuple[str, ...]:
    return (_python(request), "-m", "autoaccel", *request.arguments)


def is_apptainer_image(image: str) -> bool:
    """Whether it is Apptainer's: a .sif file, a folder, or an address such as docker://...; else it is Docker's."""
    return image.endswith((".sif", "/")) or image.startswith(("/", ".")) or "://" in image


def _contained(
    request: LaunchRequest, command: tuple[str, ...], variables: Sequence[str] | Mapping[str, str] = ()
) -> tuple[str, ...]:
    """Return the command, run in the request's container if it has one, where these variables must arrive."""
    if not request.image:
        return command
    if is_apptainer_image(request.image):
        # It passes all variables on.
        start = ["apptainer", "exec", *(["--nv"] if request.gpus else [])]
        start += ["--bind", ",".join(request.mounts), "--pwd", request.folder]
    else:
        # Ranks meet over the host's network and its shared memory.
        start = ["docker", "run", "--rm", *(["--gpus", "all"] if request.gpus else [])]
        start += ["--network", "host", "--ipc", "host"]
        start += [part for folder in request.mounts for part in ("--volume", f"{folder}:{folder}")]
        start += ["--workdir", request.folder, *(part for name in variables for part in ("--env", name))]
    return (*start, request.image, *command)
