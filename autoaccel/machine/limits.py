"""What this process may use of the computer: affinity, CPU quota, memory limit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from autoaccel.machine.cgroups import cpu_quota, find_hierarchy, memory_limit_bytes
from autoaccel.machine.kernel_files import parse_cpu_list, read_fields, read_text
from autoaccel.machine.topology import LogicalCpu
from autoaccel.records.machine import ProcessLimits


def read_limits(root: Path, cpus: Sequence[LogicalCpu]) -> ProcessLimits:
    """Return the limits of this process on a computer with these logical CPUs."""
    affinity = allowed_cpus(root, cpus)
    core_of = {cpu.number: cpu.core for cpu in cpus}
    # In a container the mask may name CPUs that the topology hides: each of them counts as a core.
    cores: dict[int, list[int]] = {}
    for number in affinity:
        cores.setdefault(core_of.get(number, number), []).append(number)
    for_cpu, for_memory = find_hierarchy(root, "cpu"), find_hierarchy(root, "memory")
    seen = for_cpu or for_memory
    return ProcessLimits(
        affinity=affinity,
        physical_cores=len(cores),
        cores=tuple(tuple(siblings) for siblings in cores.values()),
        cpu_quota=cpu_quota(for_cpu) if for_cpu else None,
        memory_bytes=memory_limit_bytes(for_memory) if for_memory else None,
        cgroup_version=seen.version if seen else None,
    )


def allowed_cpus(root: Path, cpus: Sequence[LogicalCpu]) -> tuple[int, ...]:
    """Return the logical CPUs that this process may run on, ascending; a control group's cpuset is already in it."""
    everything = tuple(cpu.number for cpu in cpus)
    if root == Path("/"):
        return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else everything
    # A recorded computer's mask may name CPUs that could be plugged in but are not there.
    recorded = read_fields(read_text(root / "proc/self/status") or "").get("Cpus_allowed_list", "")
    return tuple(number for number in parse_cpu_list(recorded) if number in everything) or everything
