"""Which rank this process is, read from the variables that launchers set.

Sources: torchrun's page in PyTorch's documentation; mpirun(1) of Open MPI; srun(1) and slurm.h; what each of them set
here, recorded beside the tests.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence

from autoaccel.errors import BadRequestError
from autoaccel.records.ranks import LaunchedRank, Launcher
from autoaccel.units import check_range, excerpt, parse_digits

RANK_VARIABLES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE",
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "PMIX_RANK",
    "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE", "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST",
    "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PALS_APID",
)  # fmt: skip
"""What has to reach a container for the process in it to know its rank."""

_THIS_MACHINE = "127.0.0.1"

# Linux hands out ports from 32768 on to whoever asks for any (net.ipv4.ip_local_port_range); below that, but above the
# registered services that a cluster's machines usually run, two jobs seldom meet.
_FIRST_PORT, _PORTS = 20000, 10000

# The batch script, the interactive shell and the like are steps too, with numbers from here on (slurm.h).
_FIRST_SPECIAL_STEP = 0xFFFFFFF0


def rank_of(environ: Mapping[str, str]) -> LaunchedRank | None:
    """Return which rank of a job the process with these variables is, or None if no launcher made it one.

    The launcher nearest to the process decides: torchrun or mpirun inside a Slurm job leave Slurm's variables standing.

    Raises:
        BadRequestError: If a launcher's variables are half set, or contradict one another.
    """
    environ = {name: value for name, value in environ.items() if value}
    if {"RANK", "WORLD_SIZE", "LOCAL_RANK"} & environ.keys():
        return _of_torchrun(environ)
    if {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"} & environ.keys():
        return _of_open_mpi(environ)
    if {"PMI_RANK", "MPI_LOCALRANKID"} <= environ.keys():
        return _of_pmi(environ)  # MPICH's: under Slurm it is started by a step of one task for each machine
    if "SLURM_STEP_ID" in environ:
        return _of_slurm(environ)
    if {"PMI_RANK", "PMIX_RANK"} & environ.keys():
        return _of_pmi(environ)
    return None


def _of_torchrun(environ: Mapping[str, str]) -> LaunchedRank:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
    rank, world_size, local_rank, local_world_size, port = _numbers(environ, names)
    if "MASTER_ADDR" not in environ:
        raise _half_set(names, "MASTER_ADDR")
    return _checked(
        LaunchedRank(
            rank,
            world_size,
            local_rank,
            local_world_size,
            main_address=environ["MASTER_ADDR"],
            main_port=port,
            launcher="torchrun",
            nodes=_number_if_set(environ, "GROUP_WORLD_SIZE"),
            node_rank=_number_if_set(environ, "GROUP_RANK"),
        )
    )


def _of_open_mpi(environ: Mapping[str, str]) -> LaunchedRank:
    names = [f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")]
    job = environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid", "")
    return _of_mpi(environ, names, job, "mpirun")


def _of_pmi(environ: Mapping[str, str]) -> LaunchedRank:
    names = ["PMI_RANK" if "PMI_RANK" in environ else "PMIX_RANK", "PMI_SIZE"]
    cray = "PMI_LOCAL_RANK" in environ  # PALS, Cray's; all others name them as MPICH's Hydra does
    names += ["PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"] if cray else ["MPI_LOCALRANKID", "MPI_LOCALNRANKS"]
    # Hydra gives its ranks nothing that names the job.
    job = environ.get("PMIX_NAMESPACE") or environ.get("PALS_APID", "")
    return _of_mpi(environ, names, job, "pmi")


def _of_mpi(environ: Mapping[str, str], names: Sequence[str], job: str, launcher: Launcher) -> LaunchedRank:
    """Return the rank of a launcher that does not say where rank 0 runs.

    Args:
        environ: The variables.
        names: Of those that hold rank, world size, local rank and local world size.
        job: What tells this job from others; empty if nothing does.
        launcher: That started it.
    """
    rank, world_size, local_rank, local_world_size = _numbers(environ, names)
    one_machine = world_size == local_world_size
    if not one_machine and "MASTER_ADDR" not in environ:
        raise BadRequestError(
            f"MASTER_ADDR must name rank 0's machine: of {world_size} ranks on several machines, {local_world_size} "
            "run here. Start with `autoaccel launch --hosts A,B`, or pass it on: mpirun -x MASTER_ADDR=A."
        )
    return _checked(
        LaunchedRank(
            rank,
            world_size,
            local_rank,
            local_world_size,
            main_address=_THIS_MACHINE if one_machine else environ["MASTER_ADDR"],
            main_port=_port(environ, job),
            launcher=launcher,
            nodes=1 if one_machine else None,
            node_rank=0 if one_machine else None,
        )
    )


def _of_slurm(environ: Mapping[str, str]) -> LaunchedRank | None:
    """Return the rank of a task of a step that has several; a shell is a step of one task, or none at all."""
    (step,) = _numbers(environ, ["SLURM_STEP_ID"])
    if step >= _FIRST_SPECIAL_STEP:
        return None
    # The step's own: sbatch's SLURM_NTASKS_PER_NODE is inherited by steps of another shape.
    tasks_name = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environ else "SLURM_NTASKS"
    names = ["SLURM_STEP_ID", "SLURM_PROCID", tasks_name, "SLURM_LOCALID", "SLURM_NODEID", "SLURM_JOB_ID"]
    _, rank, tasks, local_rank, node_rank, job = _numbers(environ, names)
    if tasks < 2:
        return None
    per_node_name = "SLURM_STEP_TASKS_PER_NODE" if "SLURM_STEP_TASKS_PER_NODE" in environ else "SLURM_TASKS_PER_NODE"
    per_node = tasks_per_node(environ.get(per_node_name, ""))
    if sum(per_node) != tasks or node_rank >= len(per_node):
        raise BadRequestError(
            f"{per_node_name} must list {tasks} tasks, including those of machine {node_rank}, got "
            f"{environ.get(per_node_name, 'nothing')}. Start the ranks with srun, and do not set its variables "
            "yourself."
        )
    several = len(per_node) > 1
    # Not SLURM_LAUNCH_NODE_IPADDR: srun may have been typed on a login node, where no rank runs.
    hosts = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST", "")
    address = (environ.get("MASTER_ADDR") or first_host(hosts)) if several else _THIS_MACHINE
    if not address:
        raise _half_set(names, "SLURM_STEP_NODELIST")
    return _checked(
        LaunchedRank(
            rank,
            tasks,
            local_rank,
            per_node[node_rank],
            main_address=address,
            main_port=_port(environ, f"{job}.{step}"),
            launcher="slurm",
            nodes=len(per_node),
            node_rank=node_rank,
        )
    )


_MAX_NODES = 100_000
_MAX_DIGITS = 10  # of a rank, a port, a number of tasks, or of a step of Slurm, which has 32 bits


def tasks_per_node(text: str) -> tuple[int, ...]:
    """Return how many tasks each machine has, from Slurm's `2(x3),1`; none if it is no such list."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:\(x(\d{1,9})\))?", part)
        if match is None or len(found) + int(match[2] or 1) > _MAX_NODES:
            return ()
        found += [int(match[1])] * int(match[2] or 1)
    return tuple(found)


def first_host(hosts: str) -> str:
    """Return the first machine of a list as Slurm writes it: `node01` of `node[01-04,7],login`."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", hosts)
    return re.sub(r"\[(\w+)[^\]]*\]", r"\1", first[0]) if first else ""


def _checked(found: LaunchedRank) -> LaunchedRank:
    if not (0 <= found.rank < found.world_size and 0 <= found.local_rank < found.local_world_size <= found.world_size):
        raise BadRequestError(
            "0 <= rank < world size and 0 <= local rank < local world size <= world size must hold, but "
            f"{found.launcher} says rank {found.rank} of {found.world_size}, local rank {found.local_rank} of "
            f"{found.local_world_size}. "
            "Leave these variables to the launcher."
        )
    return found


def _port(environ: Mapping[str, str], job: str) -> int:
    """Return the port on which rank 0 listens: as told, else the same for all ranks of the job."""
    told = _number_if_set(environ, "MASTER_PORT")
    if told is not None:
        check_range("MASTER_PORT", told, 1, 65535)
    return told if told is not None else _FIRST_PORT + zlib.crc32(job.encode()) % _PORTS


def _numbers(environ: Mapping[str, str], names: Sequence[str]) -> list[int]:
    found = []
    for name in names:
        number = _number_if_set(environ, name)
        if number is None:
            raise _half_set([other for other in names if other in environ], name)
        found.append(number)
    return found


def _number_if_set(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name)
    if text is None:
        return None
    number = parse_digits(text, _MAX_DIGITS)
    if number is None:
        raise BadRequestError(
            f"{name} must be a whole number, got {excerpt(text)}. Leave it to the launcher, or unset it."
        )
    return number


def _half_set(present: Sequence[str], missing: str) -> BadRequestError:
    return BadRequestError(
        f"{present[0]} is set but {missing} is not: either all variables of a rank must be set, or none. Start the "
        f"ranks with `autoaccel launch`; for a single process, unset {present[0]}."
    )
