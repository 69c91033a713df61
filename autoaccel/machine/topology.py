"""How the logical CPUs of a computer share cores, sockets, memory nodes and caches."""

from __future__ import annotations

import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from autoaccel.machine.kernel_files import read_cpu_list, read_fields, read_integer, read_text
from autoaccel.records.machine import Cache, NumaNode

_BYTES_PER = {"K": 1024, "M": 1024**2, "G": 1024**3}


class LogicalCpu(NamedTuple):
    """One logical CPU as the system numbers it; those of one core have the same `core`, unique in the computer."""

    number: int
    socket: int
    core: int


def read_logical_cpus(root: Path) -> tuple[LogicalCpu, ...]:
    """Return the logical CPUs that are online, by number; at least one.

    From sysfs where it tells the topology, else from /proc/cpuinfo (some containers and sandboxes hide sysfs),
    else (macOS) from what psutil counts.
    """
    return _from_sysfs(root) or _from_cpuinfo(root) or _from_counts()


def _from_sysfs(root: Path) -> tuple[LogicalCpu, ...]:
    folder = root / "sys/devices/system/cpu"
    online = read_cpu_list(folder / "online")
    found: dict[int, LogicalCpu] = {}
    for number in online:
        if number in found:
            continue
        topology = folder / f"cpu{number}" / "topology"
        # The siblings say it best: core ids repeat within a socket on some processors. The second name is that of
        # kernels before 5.3.
        siblings = read_cpu_list(topology / "core_cpus_list") or read_cpu_list(topology / "thread_siblings_list")
        if number not in siblings:
            return ()
        # Firmware that does not tell the socket leaves -1.
        socket = read_integer(topology / "physical_package_id") or 0
        for sibling in siblings:
            found[sibling] = LogicalCpu(sibling, socket, core=siblings[0])
    # Where a container shows fewer CPUs online, the sibling lists may still name them all.
    return tuple(found[number] for number in online)


def _from_cpuinfo(root: Path) -> tuple[LogicalCpu, ...]:
    cpus: list[LogicalCpu] = []
    cores: dict[tuple[str, str], int] = {}
    for block in (read_text(root / "proc/cpuinfo") or "").split("\n\n"):
        fields = read_fields(block)
        if not fields.get("processor", "").isdecimal():
            continue
        number = int(fields["processor"])
        socket = fields.get("physical id", "0")
        # Without a core id (ARM, some virtual machines) nothing is known to share a core.
        core = cores.setdefault((socket, fields["core id"]), number) if "core id" in fields else number
        cpus.append(LogicalCpu(number, int(socket), core))
    return tuple(sorted(cpus))


def _from_counts() -> tuple[LogicalCpu, ...]:
    logical = os.cpu_count() or 1
    physical = psutil.cpu_count(logical=False) or logical
    return tuple(LogicalCpu(number, socket=0, core=number * physical // logical) for number in range(logical))


def read_numa_nodes(root: Path, cpus: Sequence[LogicalCpu]) -> tuple[NumaNode, ...]:
    """Return the memory nodes that have CPUs, by number; one node with all CPUs where the system tells of none.

    Nodes of memory only (CXL, high-bandwidth memory in flat mode) are left out: no process can run there.
    """
    folder = root / "sys/devices/system/node"
    nodes = []
    for path in folder.glob("node[0-9]*"):
        if local := read_cpu_list(path / "cpulist"):
            nodes.append(NumaNode(int(path.name.removeprefix("node")), local))
    nodes.sort(key=lambda node: node.node)
    return tuple(nodes) or (NumaNode(0, tuple(cpu.number for cpu in cpus)),)


def sockets_of(cpus: Sequence[LogicalCpu]) -> tuple[tuple[int, ...], ...]:
    """Return the logical CPUs of each socket, sockets and CPUs ascending."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for cpu in cpus:
        found[cpu.socket].append(cpu.number)
    return tuple(tuple(found[socket]) for socket in sorted(found))


def read_efficient_cpus(root: Path, cpus: Sequence[LogicalCpu]) -> tuple[int, ...]:
    """Return the logical CPUs of the slower kind of core, ascending; none where all are of one kind, or none is told.

    Linux lists them for Intel's hybrid processors (tools/perf/Documentation/intel-hybrid.txt), and gives a capacity to
    each CPU of an ARM computer (Documentation/arch/arm64/cpu-capacity), the fastest kind the largest.
    """
    numbers = [cpu.number for cpu in cpus]
    listed = set(read_cpu_list(root / "sys/devices/cpu_atom/cpus"))
    if not listed:
        folder = root / "sys/devices/system/cpu"
        capacities = {number: read_integer(folder / f"cpu{number}" / "cpu_capacity") for number in numbers}
        most = max((capacity for capacity in capacities.values() if capacity), default=0)
        listed = {number for number, capacity in capacities.items() if capacity and capacity < most}
    slower = tuple(number for number in numbers if number in listed)
    return slower if len(slower) < len(numbers) else ()


def read_caches(root: Path, cpus: Sequence[LogicalCpu]) -> tuple[Cache, ...]:
    """Return the kinds of cache, by level, kind and size; none where the system does not tell.

    Cores of two kinds have caches of two sizes: each size is a kind of its own.
    """
    counts: Counter[tuple[int, str, int]] = Counter()
    # Each cache is read once, at the first CPU that has it: on hundreds of CPUs the rest would take longest of all.
    # An index means the same cache to all CPUs in its list.
    seen: defaultdict[int, set[int]] = defaultdict(set)
    for cpu in cpus:
        for index in itertools.count():
            if cpu.number in seen[index]:
                continue
            folder = root / f"sys/devices/system/cpu/cpu{cpu.number}/cache/index{index}"
            level = read_integer(folder / "level")
            if level is None:
                break
            seen[index].update(read_cpu_list(folder / "shared_cpu_list") or (cpu.number,))
            kind, size = read_text(folder / "type"), _parse_size(read_text(folder / "size"))
            # ARM firmware often tells of a cache without its size.
            if kind and size:
                counts[level, kind.lower(), size] += 1
    return tuple(Cache(level, kind, size, count) for (level, kind, size), count in sorted(counts.items()))


def _parse_size(text: str | None) -> int | None:
    """Return the bytes of a size as the kernel writes it, such as `32K`; None if it is not one."""
    if not text:
        return None
    unit = _BYTES_PER.get(text[-1], 1)
    number = text.rstrip("KMG")
    return int(number) * unit if number.isdecimal() else None
