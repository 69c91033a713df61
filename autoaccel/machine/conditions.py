"""What the computer does besides the training, and how its clock is set."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from autoaccel.machine.kernel_files import read_integer, read_text
from autoaccel.machine.quiet import Load, read_load, throttled_periods
from autoaccel.records.conditions import MachineConditions

_SPIN_SECONDS = 0.05  # a clock that follows the load has risen by then


class Watch(NamedTuple):
    """When watching a computer began, how busy it was then, and what had been swapped by then."""

    load: Load
    began: float
    swapped_bytes: int

    @classmethod
    def begin(cls, load: Load | None = None) -> Watch:
        """Begin to watch, before anything of ours keeps the computer busy.

        Args:
            load: How busy it is; None: that is looked at first.
        """
        load = load or read_load()
        return cls(load, time.perf_counter(), _swapped_bytes())

    def conditions(self, root: Path = Path("/"), gpu_throttling: Sequence[str] = ()) -> MachineConditions:
        """Return what went on since watching began; GPUs were watched while they worked (`watch_throttling`)."""
        seconds = max(time.perf_counter() - self.began, 1e-3)
        folder = root / "sys/devices/system/cpu/cpu0/cpufreq"
        return MachineConditions(
            governor=read_text(folder / "scaling_governor"),
            clock_driver=read_text(folder / "scaling_driver"),
            clock_share=_clock_share(root),
            turbo=_turbo(root),
            swap_used_bytes=int(psutil.swap_memory().used),
            swapped_bytes_per_second=max(0, _swapped_bytes() - self.swapped_bytes) / seconds,
            available_bytes=int(psutil.virtual_memory().available),
            busy_share=self.load.busy,
            stolen_share=self.load.stolen,
            throttled_periods=throttled_periods(root),
            gpu_throttling=tuple(gpu_throttling),
        )


def _swapped_bytes() -> int:
    swap = psutil.swap_memory()
    return int(swap.sin + swap.sout)


def _clock_share(root: Path) -> float | None:
    """Return the present clock of the fastest core over the highest that any may reach; None if neither is told."""
    folders = sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq"))
    highest = max((value for folder in folders if (value := read_integer(folder / "cpuinfo_max_freq"))), default=None)
    if highest is None:
        return None
    until = time.perf_counter() + _SPIN_SECONDS
    while time.perf_counter() < until:
        pass
    present = max((value for folder in folders if (value := read_integer(folder / "scaling_cur_freq"))), default=None)
    return present / highest if present else None


def _turbo(root: Path) -> bool | None:
    """Return whether cores may exceed their base clock; None where the kernel does not tell."""
    cpus = root / "sys/devices/system/cpu"
    off, on = read_integer(cpus / "intel_pstate/no_turbo"), read_integer(cpus / "cpufreq/boost")
    if off is not None:
        return off == 0
    return None if on is None else on == 1
