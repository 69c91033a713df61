"""LaunchedRank: what a launcher makes a process. Placement: what a worker is told. MachineShare: what it gets."""

from __future__ import annotations

from typing import Literal

from autoaccel.records.base import Record

Launcher = Literal["torchrun", "mpirun", "slurm", "pmi"]
"""What started a rank; pmi: another program that speaks the process management interface, such as MPICH's mpiexec."""


class LaunchedRank(Record, frozen=True):
    """One of the processes that train together, as the variables of its launcher describe it."""

    rank: int  # from 0 to world_size - 1
    world_size: int
    local_rank: int  # from 0 to local_world_size - 1: among the ranks of this machine
    local_world_size: int
    main_address: str  # of rank 0's machine
    main_port: int
    launcher: Launcher
    nodes: int | None = None  # machines; None where the launcher does not say
    node_rank: int | None = None

    @property
    def variables(self) -> dict[str, str]:
        """What torch.distributed reads with `env://`, and other programs that were made for torchrun."""
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_world_size),
            "MASTER_ADDR": self.main_address,
            "MASTER_PORT": str(self.main_port),
        }


class Placement(Record, frozen=True):
    """Which of the processes that train together a worker is, and where they meet."""

    rank: int  # from 0 to world_size - 1, over all machines
    world_size: int
    local_rank: int  # on this machine
    rendezvous_file: str | None  # by which the ranks of this machine meet; None: as a launcher's variables say


class MachineShare(Record, frozen=True):
    """What one of the processes that train on a machine gets of it."""

    cpus: tuple[int, ...]  # logical; empty: any
    threads: int | None  # None: as torch decides
    loader_workers: int
    gpu: int | None  # in the driver's order; None: none, or as CUDA numbers them
