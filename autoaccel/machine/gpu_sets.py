"""Which of a machine's GPUs to train on together, and which CPUs are near them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from autoaccel.errors import BadRequestError
from autoaccel.records.machine import PCIE_LINKS, GpuSet, Interconnect

MAX_GPUS = 16
"""Among so many GPUs the exact choice takes a fraction of a second."""

_NVLINK_BANDWIDTH = 20
_PCIE_BANDWIDTH = dict(zip(PCIE_LINKS, (12, 11, 10, 8, 6), strict=True))
"""GB/s in each direction, for comparing links of one machine.

NCCL (src/graph/topo.h) reckons with 20 per NVLink of a V100 or A100, 12 for PCIe 3.0 x16, 6 for the slowest link
between sockets. Between these ends only the order is known: nvidia-smi's legend and NVML (nvmlGpuTopologyLevel_t) tell
the distance. Newer machines are faster throughout.
"""


def _bandwidth(link: str) -> int:
    return _NVLINK_BANDWIDTH * int(link[2:]) if link.startswith("NV") else _PCIE_BANDWIDTH[link]


def best_connected(interconnect: Interconnect, count: int) -> tuple[int, ...]:
    """Return the `count` GPUs to train on together, ascending.

    Collectives run as rings, and a ring is as fast as its slowest hop. Sets are therefore compared by
    the slowest hop of their best ring, then by the bandwidth of all their links together, then by how few memory nodes
    they are near to, then by the lowest numbers. The choice is exact.

    Raises:
        BadRequestError: If there are fewer GPUs than that, or more than 16 to choose from.
    """
    total = len(interconnect.links)
    if not 1 <= count <= total:
        raise BadRequestError(f"the number of GPUs must be from 1 to {total}, which this machine has, got {count}.")
    if count == total:
        return tuple(range(total))
    if total > MAX_GPUS:
        raise BadRequestError(
            f"the best GPUs can be found among at most {MAX_GPUS}, got {total}. Choose them yourself."
        )
    sets = _best_ring_sets(interconnect.links, count)
    return min(sets, key=lambda gpus: _order(interconnect, gpus))


def _order(interconnect: Interconnect, gpus: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
    bandwidth = sum(_bandwidth(interconnect.links[one][other]) for one, other in itertools.combinations(gpus, 2))
    # Without the number of its node, the CPUs near it tell one node from another.
    nodes = {node if (node := interconnect.numa_nodes[gpu]) is not None else interconnect.cpus[gpu] for gpu in gpus}
    return -bandwidth, len(nodes), gpus


def _best_ring_sets(links: Sequence[Sequence[str]], count: int) -> list[tuple[int, ...]]:
    """Return the sets of GPUs whose best ring has the fastest slowest hop that any set of this size has."""
    if count == 1:
        return [(gpu,) for gpu in range(len(links))]
    sets: list[tuple[int, ...]] = []
    for least in _bandwidths(links):
        neighbours = _neighbours(links, least)
        closed = [found for found, ends in _paths(neighbours, count)[-1].items() if ends & neighbours[_lowest(found)]]
        sets = [tuple(_members(found)) for found in closed]
        if sets:
            break
    return sets


def _bandwidths(links: Sequence[Sequence[str]]) -> list[int]:
    """Return the bandwidths that the links have, fastest first."""
    return sorted({_bandwidth(link) for row in links for link in row if link != "X"}, reverse=True)


def _neighbours(links: Sequence[Sequence[str]], least: int) -> list[int]:
    """Return for each GPU those that it reaches with at least this bandwidth, as bits."""
    return [
        sum(1 << other for other, link in enumerate(row) if link != "X" and _bandwidth(link) >= least) for row in links
    ]


def _paths(neighbours: Sequence[int], count: int) -> list[dict[int, int]]:
    """Return for 1, 2, .. `count` GPUs: each set that a path visits from its lowest GPU, with where the path may end.

    Sets and ends are bits. This is the dynamic programme of Held and Karp (1962) with yes and no in place of lengths:
    for 16 GPUs at most 2^16 sets.
    """
    total = len(neighbours)
    layers = [{1 << gpu: 1 << gpu for gpu in range(total - count + 1)}]
    for _ in range(count - 1):
        longer: dict[int, int] = {}
        for visited, ends in layers[-1].items():
            for gpu in range(_lowest(visited) + 1, total):
                if not visited >> gpu & 1 and neighbours[gpu] & ends:
                    longer[visited | 1 << gpu] = longer.get(visited | 1 << gpu, 0) | 1 << gpu
        layers.append(longer)
    return layers


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _members(bits: int) -> list[int]:
    return [gpu for gpu in range(bits.bit_length()) if bits >> gpu & 1]


def best_ring(interconnect: Interconnect, gpus: Sequence[int]) -> tuple[int, ...]:
    """Return these GPUs in the order of a ring whose slowest hop is as fast as can be, from the lowest on.

    Among such rings it is one that takes the faster hop wherever it may choose.
    """
    numbers = sorted(gpus)
    if len(numbers) < 3:
        return tuple(numbers)
    links = [[interconnect.links[one][other] for other in numbers] for one in numbers]
    everyone = (1 << len(numbers)) - 1
    for least in _bandwidths(links):
        neighbours = _neighbours(links, least)
        layers = _paths(neighbours, len(numbers))
        if layers[-1].get(everyone, 0) & neighbours[0]:
            break
    ring, left = [0], everyone
    while len(ring) < len(numbers):
        here = ring[-1]
        ends = layers[left.bit_count() - 1][left] & neighbours[here]
        there = max(_members(ends), key=lambda gpu: (_bandwidth(links[here][gpu]), -gpu))
        ring.append(there)
        left &= ~(1 << there)
    return tuple(numbers[place] for place in ring)


def cores_near(
    interconnect: Interconnect,
    allowed: Iterable[int],
    cores: Iterable[Sequence[int]] = (),
    gpus: Sequence[int] | None = None,
) -> dict[int, tuple[int, ...]]:
    """Return the logical CPUs for the rank on each GPU, by GPU: near it, among the allowed ones, ascending.

    CPUs that are near several of the GPUs (all of the machine unless given) are divided among these, core by core: no
    two ranks get the same one. `cores` are the allowed CPUs by the core that they share, as `ProcessLimits` has them. A
    GPU gets none if all allowed ones are far, or fewer cores than ranks are left.
    """
    usable = set(allowed)
    takers = range(len(interconnect.cpus)) if gpus is None else gpus
    # Where the driver does not tell, as in most virtual machines, every CPU is as near as any other.
    near = {taker: set(interconnect.cpus[taker] or usable) for taker in takers}
    divided: dict[tuple[int, ...], list[list[int]]] = {}
    for core in list(cores) or _likely_cores(interconnect, usable):
        within = [cpu for cpu in core if cpu in usable]
        if claimants := tuple(taker for taker in takers if not near[taker].isdisjoint(within)):
            divided.setdefault(claimants, []).append(within)
    shares: dict[int, list[int]] = {taker: [] for taker in takers}
    for claimants, shared in divided.items():
        for place, taker in enumerate(claimants):
            first, end = (math.ceil(len(shared) * part / len(claimants)) for part in (place, place + 1))
            shares[taker].extend(itertools.chain(*shared[first:end]))
    return {taker: tuple(sorted(share)) for taker, share in shares.items()}


def _likely_cores(interconnect: Interconnect, usable: set[int]) -> list[list[int]]:
    """Return the usable CPUs by core, as far as their numbers tell: 0-19,40-59 is twenty cores of two threads each.

    Linux numbers the second threads of all x86 cores after all first ones.
    """
    cores: list[list[int]] = []
    for cpus in dict.fromkeys(interconnect.cpus):
        runs = [
            [cpu for _, cpu in run] for _, run in itertools.groupby(enumerate(cpus), lambda item: item[1] - item[0])
        ]
        if len(runs) == 2 and len(runs[0]) == len(runs[1]):
            cores += [[first, second] for first, second in zip(*runs, strict=True)]
    paired = {cpu for core in cores for cpu in core}
    return cores + [[cpu] for cpu in sorted(usable - paired)]


def gpu_sets(
    interconnect: Interconnect, allowed: Iterable[int], cores: Sequence[Sequence[int]] = ()
) -> tuple[GpuSet, ...]:
    """Return the best set for 2, 4, 8, .. GPUs and for all of them; none if there is only one GPU."""
    total = len(interconnect.links)
    usable = tuple(allowed)
    sets = []
    for count in sorted({2**power for power in range(1, total.bit_length()) if 2**power <= total} | {total} - {1}):
        gpus = best_connected(interconnect, count)
        ring = best_ring(interconnect, gpus)
        pairs = zip(ring, (*ring[1:], ring[0]), strict=True) if count > 2 else [ring]
        hops = tuple(interconnect.links[one][other] for one, other in pairs)
        sets.append(
            GpuSet(
                gpus=gpus,
                ring=ring,
                hops=hops,
                slowest=min(hops, key=_bandwidth),
                cores=tuple(cores_near(interconnect, usable, cores, gpus).values()),
            )
        )
    return tuple(sets)
