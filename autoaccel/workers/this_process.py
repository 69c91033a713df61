"""ThisProcess: what this process is to do and may use in a training with a recipe, as its launcher has it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from autoaccel.machine.detect import detect_machine
from autoaccel.machine.ranks import rank_of
from autoaccel.records.machine import Machine
from autoaccel.records.ranks import LaunchedRank, MachineShare
from autoaccel.records.recipe import Recipe
from autoaccel.records.settings import Settings
from autoaccel.space.domains import whole_computer
from autoaccel.space.knobs import KnobContext, count_processes
from autoaccel.workers.shares import context_on, cores_of, devices_of_ranks, gpus_of_ranks, share_of_rank


@dataclass(frozen=True)
class ThisProcess:
    """One of the processes that a launcher has started, each as a rank; or one that starts all that train itself.

    Attributes:
        launched_as: The rank that a launcher has made it; None if none has.
    """

    launched_as: LaunchedRank | None = None

    @property
    def is_launched(self) -> bool:
        """Whether a launcher starts, and starts again, what trains."""
        return self.launched_as is not None

    @property
    def leads(self) -> bool:
        """Whether it is the one that tells how the training goes."""
        return self.launched_as is None or self.launched_as.rank == 0

    def settings(self, recipe: Recipe) -> Settings:
        """Return a recipe's settings, with as many processes on this machine as the launcher has started."""
        if self.launched_as is None:
            return recipe.settings
        return {**recipe.settings, "parallel.world_size": self.launched_as.local_world_size}

    def share(self, recipe: Recipe) -> Settings:
        """Return the settings that hold in this process: the recipe's, or its share of them."""
        launched_as = self.launched_as
        if launched_as is None:
            return recipe.settings
        settings, context = self.settings(recipe), _context_here(recipe)
        return share_of_rank(settings, context, launched_as.local_rank, launched_as.local_world_size)

    def shares_of_all(self, recipe: Recipe) -> list[MachineShare]:
        """Return what each process that trains on this machine gets of it; nothing is started."""
        context, settings = _context_here(recipe), self.settings(recipe)
        count = count_processes(settings)
        cores = cores_of(context, str(settings.get("threads.affinity", "none")), count)
        devices = devices_of_ranks(context, count)
        gpus = gpus_of_ranks(context.machine, count) if devices else (None,) * count
        shares = [share_of_rank(settings, context, number, count) for number in range(count)]
        return [
            MachineShare(cpus, _whole(share.get("threads.intra_op")), int(share.get("loader.workers", 0)), gpu)
            for cpus, share, gpu in zip(cores, shares, gpus, strict=True)
        ]

    def device(self, recipe: Recipe) -> str:
        """Return where it trains, such as "cuda:1"; only the type where a launcher gives each process a device."""
        torch = recipe.machine.torch
        device = recipe.device or (torch.device if torch is not None else "cpu")
        return device.partition(":")[0] if self.is_launched else device

    def usable(self, machine: Machine) -> Machine:
        """Return what a training may use of this machine: of all that a launcher has shared out among its ranks."""
        return whole_computer(machine) if self.is_launched else machine


def this_process(environment: Mapping[str, str] = os.environ) -> ThisProcess:
    """Return what a launcher's variables say of this process.

    Raises:
        BadRequestError: If they are half set, or contradict one another.
    """
    return ThisProcess(rank_of(environment))


def _context_here(recipe: Recipe) -> KnobContext:
    return context_on(msgspec.structs.replace(detect_machine(), torch=recipe.machine.torch), recipe.device)


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) else None
