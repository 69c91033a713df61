"""Threads: how many, on which cores, under which OpenMP runtime."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from autoaccel.records.environment import written_value
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError
from autoaccel.space.knobs.cpus import format_cpus, parse_cpus
from autoaccel.space.knobs.openmp import VARIABLES
from autoaccel.space.knobs.threads import CPUS_VARIABLE, LOADER_CPUS_VARIABLE

_STARTED_OTHERWISE = "it must be set when the process starts: start it with `autoaccel run`"


def is_loaded(stem: str) -> bool:
    """Whether this process has loaded a library whose file name begins like this."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return False
    return f"/{stem}" in maps


class IntraOpThreads(Effect):
    """Set the thread count in this process too: in a user's own program the environment was read long ago."""

    switches = True

    @classmethod
    def found(cls, device: torch.device) -> int:
        return torch.get_num_threads()

    def process(self) -> None:
        if torch.get_num_threads() != self.value:
            torch.set_num_threads(int(self.value))

    def check(self) -> str:
        if (found := torch.get_num_threads()) != self.value:
            raise IneffectiveError(f"torch uses {found} threads; something in the workload sets its own count")
        return f"torch uses {self.value} threads"


class InterOpThreads(Effect):
    """Threads for operators side by side; torch takes a count only once, and only before the first of them."""

    @classmethod
    def found(cls, device: torch.device) -> int:
        return torch.get_num_interop_threads()

    def process(self) -> None:
        if torch.get_num_interop_threads() != self.value:
            with contextlib.suppress(RuntimeError):  # it was set before; the check says so
                torch.set_num_interop_threads(int(self.value))

    def check(self) -> str:
        if (found := torch.get_num_interop_threads()) != self.value:
            raise IneffectiveError(f"torch uses {found} inter-op threads; the number can be set only once per process")
        return f"torch uses {self.value} inter-op threads"


class Affinity(Effect):
    """Keep to some CPUs, which the process that starts this one has worked out from the machine."""

    @property
    def cpus(self) -> tuple[int, ...]:
        """The CPUs that the value stands for; none if nobody has worked them out."""
        return parse_cpus(os.environ.get(CPUS_VARIABLE, "")) or parse_cpus(str(self.value))

    def process(self) -> None:
        if not self.is_off and self.cpus:
            os.sched_setaffinity(0, self.cpus)

    def check(self) -> str:
        if self.is_off:
            return ""
        cpus = self.cpus
        if not cpus:
            raise IneffectiveError(_STARTED_OTHERWISE)
        if os.sched_getaffinity(0) != set(cpus):
            raise IneffectiveError("something has changed the affinity")
        return f"keeps to CPUs {format_cpus(cpus)}"


class LoaderCores(Effect):
    """Give loader workers cores of their own, and the training the others."""

    def begin(self) -> None:
        self.cpus = () if self.is_off else parse_cpus(os.environ.get(LOADER_CPUS_VARIABLE, ""))

    def process(self) -> None:
        if self.cpus:
            os.sched_setaffinity(0, os.sched_getaffinity(0) - set(self.cpus))

    def loader_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if not self.cpus:
            return arguments
        return {**arguments, "worker_init_fn": _OnCpus(self.cpus, arguments.get("worker_init_fn"))}

    def check(self) -> str:
        if self.is_off:
            return ""
        if not self.cpus:
            raise IneffectiveError(_STARTED_OTHERWISE)
        if os.sched_getaffinity(0) & set(self.cpus):
            raise IneffectiveError("something has changed the affinity")
        return f"CPUs {written_value(LOADER_CPUS_VARIABLE)} are reserved for the workers"


class _OnCpus:
    """A worker's first act: to keep to its CPUs. A class, so that it reaches spawned workers too."""

    def __init__(self, cpus: tuple[int, ...], then: Callable[[int], None] | None) -> None:
        self.cpus = cpus
        self.then = then

    def __call__(self, worker: int) -> None:
        os.sched_setaffinity(0, self.cpus)
        if self.then is not None:
            self.then(worker)


class OpenMpRuntime(Effect):
    """The OpenMP runtime; it was preloaded, or is torch's own."""

    def check(self) -> str:
        if self.is_off:
            return ""
        if not is_loaded("libiomp5"):
            raise IneffectiveError(f"Intel's OpenMP runtime is not loaded; {_STARTED_OTHERWISE}")
        return "Intel's OpenMP runtime is loaded"


class OpenMpVariable(Effect):
    """A variable that the OpenMP runtime has read when it was loaded."""

    def check(self) -> str:
        if self.is_off:
            return ""
        variable = VARIABLES[self.name]
        if variable not in os.environ:
            raise IneffectiveError(f"{variable} is not set; {_STARTED_OTHERWISE}")
        runtime = "libiomp5" if variable.startswith("KMP_") else "libgomp"
        if not (is_loaded(runtime) or is_loaded("libiomp5")):
            raise IneffectiveError(f"no OpenMP runtime that reads {variable} is loaded")
        return f"{variable}={written_value(variable)}"
