"""Which logical CPUs a process keeps to: one of each core, those of a memory node, of a socket, or a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autoaccel.records.machine import Machine
from autoaccel.units import parse_numbers

Cpus = tuple[int, ...]
"""Logical CPUs, ascending."""


def cores_of(machine: Machine) -> tuple[Cpus, ...]:
    """Return the CPUs that this process may use, by the core that they share."""
    return machine.limits.cores or tuple((cpu,) for cpu in machine.limits.affinity)


def count_cores(machine: Machine, cpus: Iterable[int]) -> int:
    """Return how many cores have a CPU among these."""
    among = set(cpus)
    return sum(not among.isdisjoint(core) for core in cores_of(machine))


def nodes_of(machine: Machine) -> tuple[Cpus, ...]:
    """Return the CPUs that this process may use, by memory node; all in one where the nodes are not told."""
    return _allowed(machine, [node.cpus for node in machine.cpu.numa_nodes])


def sockets_of(machine: Machine) -> tuple[Cpus, ...]:
    """Return the CPUs that this process may use, by socket; all in one where the sockets are not told."""
    return _allowed(machine, machine.cpu.socket_cpus)


def _allowed(machine: Machine, groups: Sequence[Cpus]) -> tuple[Cpus, ...]:
    allowed = machine.limits.affinity
    kept = [tuple(cpu for cpu in group if cpu in allowed) for group in groups]
    return tuple(group for group in kept if group) or (allowed,)


def fast_cpus_of(machine: Machine) -> Cpus:
    """Return the CPUs that this process may use, those of the slower kind of core left out; all if it has no others."""
    slower = set(machine.cpu.efficient_cpus)
    return tuple(cpu for cpu in machine.limits.affinity if cpu not in slower) or machine.limits.affinity


def cpus_of(affinity: str, machine: Machine, gpu: str = "") -> Cpus:
    """Return the CPUs of a value of `threads.affinity`; of a list, those in it.

    cores: one CPU of every core. fast: the cores of the faster kind. node, socket: the memory node, or the socket, that
    has most CPUs, but the node next to a GPU if one is named. compact: the first half of the cores, next to each other.
    spread: half of the cores, evenly over all memory nodes.

    Args:
        affinity: The value.
        machine: Whose CPUs.
        gpu: UUID of the GPU that a process uses; empty for none.
    """
    allowed, cores = machine.limits.affinity, cores_of(machine)
    half = max(1, len(cores) // 2)
    if affinity == "none":
        return allowed
    if affinity == "cores":
        return tuple(sorted(core[0] for core in cores))
    if affinity == "fast":
        return fast_cpus_of(machine)
    if affinity == "node":
        return _next_to(gpu, machine) or max(nodes_of(machine), key=len)
    if affinity == "socket":
        return max(sockets_of(machine), key=len)
    if affinity == "compact":
        return tuple(sorted(core[0] for core in cores[:half]))
    if affinity == "spread":
        by_node = [[core[0] for core in cores if core[0] in node] for node in nodes_of(machine)]
        turns = [cpu for turn in range(len(cores)) for node in by_node for cpu in node[turn : turn + 1]]
        return tuple(sorted(turns[:half]))
    return parse_cpus(affinity)


def _next_to(gpu: str, machine: Machine) -> Cpus:
    """Return the CPUs that this process may use near a GPU; none where that is not told."""
    uuids = [one.uuid for one in machine.gpus]
    if machine.interconnect is None or gpu not in uuids or len(machine.interconnect.cpus) != len(uuids):
        return ()
    near = machine.interconnect.cpus[uuids.index(gpu)]
    return tuple(cpu for cpu in near if cpu in machine.limits.affinity)


def parse_cpus(text: str) -> Cpus:
    """Return the CPUs in a list such as `0-3,8`; none if it is no such list."""
    try:
        return parse_numbers(text)
    except ValueError:
        return ()


def format_cpus(cpus: Cpus) -> str:
    """Return a list of CPUs as Linux writes it: `0-3,8`."""
    parts: list[list[int]] = []
    for cpu in cpus:
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
