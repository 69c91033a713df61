"""What disturbs measurements on this computer right now, and what to do about it. These are hints: tuning continues."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from autoaccel.machine.cgroups import find_hierarchy
from autoaccel.machine.kernel_files import read_text
from autoaccel.records.machine import Machine

_BUSY_SHARE = 0.15  # of the computer's cores in use before anything was started here
_STOLEN_SHARE = 0.02  # of the cores' time that the host gave to others
_WATCHED_SECONDS = 0.25


class Load(NamedTuple):
    """How busy the computer was while this process waited; shares of all cores."""

    busy: float
    stolen: float

    def hints(self, machine: Machine, root: Path = Path("/")) -> list[str]:
        """Return one sentence for each thing that makes timings unsteady here, with what to do."""
        hints = [
            _busy_hint(machine, self),
            _stolen_hint(self),
            _quota_hint(machine, root),
            _governor_hint(root),
            _battery_hint() if root == Path("/") else "",
        ]
        return [hint for hint in hints if hint]


def read_load(seconds: float = _WATCHED_SECONDS) -> Load:
    """Wait for so many seconds; return how busy the computer was with other things."""
    # Not psutil.cpu_times_percent(): its shares are wrong where all cores together spend less than a second.
    before = psutil.cpu_times()
    time.sleep(seconds)
    after = psutil.cpu_times()
    spent = {name: getattr(after, name) - getattr(before, name) for name in after._fields if "guest" not in name}
    total = max(sum(spent.values()), 1e-9)
    stolen = spent.get("steal", 0.0)
    # What waits for a disk is idle as far as training is concerned.
    idle = spent["idle"] + spent.get("iowait", 0.0)
    return Load(busy=max(0.0, total - idle - stolen) / total, stolen=stolen / total)


def _busy_hint(machine: Machine, load: Load) -> str:
    if load.busy < _BUSY_SHARE:
        return ""
    cores = load.busy * machine.cpu.logical_cores
    return f"other programs keep {cores:.1f} of {machine.cpu.logical_cores} cores busy: stop them, or tune later"


def _stolen_hint(load: Load) -> str:
    if load.stolen < _STOLEN_SHARE:
        return ""
    return (
        f"the host gives {load.stolen:.0%} of this virtual machine's time to others: tune on a dedicated "
        "machine, or later"
    )


def _quota_hint(machine: Machine, root: Path) -> str:
    quota, allowed = machine.limits.cpu_quota, len(machine.limits.affinity)
    if quota is None or quota >= allowed:
        return ""
    throttled = throttled_periods(root)
    so_far = f" ({throttled:,} times so far)" if throttled else ""
    return (
        f"this container sees {allowed} cores but has a CPU quota of {quota:g}, so it is throttled{so_far}: pin it "
        f"instead, for example docker run --cpuset-cpus 0-{max(1, math.floor(quota)) - 1}"
    )


def throttled_periods(root: Path) -> int:
    """Return how often the CPU quota stopped this control group; 0 where that is not told."""
    hierarchy = find_hierarchy(root, "cpu")
    text = (read_text(hierarchy.folders[0] / "cpu.stat") or "") if hierarchy else ""
    numbers = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    return int(numbers.get("nr_throttled", 0))


def _governor_hint(root: Path) -> str:
    folder = root / "sys/devices/system/cpu/cpu0/cpufreq"
    governor, driver = read_text(folder / "scaling_governor"), read_text(folder / "scaling_driver") or ""
    # The governors of these drivers are hints to the processor, which raises its clock under load all the same.
    if governor in (None, "performance") or driver in ("intel_pstate", "amd-pstate-epp"):
        return ""
    return (
        f"the CPU clock follows the load (governor {governor}, driver {driver}): sudo cpupower frequency-set "
        "--governor performance"
    )


def _battery_hint() -> str:
    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    if battery is None or battery.power_plugged is not False:
        return ""
    return "this computer runs on battery, which slows it down: plug it in"
