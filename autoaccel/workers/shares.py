"""What each rank of one machine gets of it: cores, threads, loader workers, a GPU."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence

import msgspec

from autoaccel.machine.gpu_sets import MAX_GPUS, best_connected, cores_near
from autoaccel.machine.visible import visible_gpus
from autoaccel.records.machine import Interconnect, Machine
from autoaccel.records.settings import Settings, Value
from autoaccel.space.knobs import KnobContext
from autoaccel.space.knobs.cpus import cpus_of, format_cpus

Cores = tuple[tuple[int, ...], ...]


def cores_of_ranks(machine: Machine, affinity: str, ranks: int) -> Cores:
    """Return the logical CPUs of each rank of one machine, ascending.

    The cores that `affinity` (see `cpus_of`) leaves are ordered by memory node and divided into equal, contiguous
    parts: a rank spans two nodes only where the parts do not fit. The logical CPUs of one core stay together.
    Ranks share cores only where there are more ranks than cores.
    """
    allowed = set(cpus_of(affinity, machine))
    all_cores = machine.limits.cores or tuple((cpu,) for cpu in machine.limits.affinity)
    cores = [kept for core in all_cores if (kept := tuple(cpu for cpu in core if cpu in allowed))]
    node_of = {cpu: node.node for node in machine.cpu.numa_nodes for cpu in node.cpus}
    cores.sort(key=lambda core: (node_of.get(core[0], 0), core[0]))
    if ranks > len(cores):
        return tuple(tuple(sorted(cores[rank % len(cores)])) for rank in range(ranks))
    ends = [len(cores) * rank // ranks for rank in range(ranks + 1)]
    return tuple(
        tuple(sorted(cpu for core in cores[first:last] for cpu in core)) for first, last in itertools.pairwise(ends)
    )


def gpus_of_ranks(machine: Machine, ranks: int, environment: Mapping[str, str] = os.environ) -> tuple[int, ...]:
    """Return the GPU of each rank, in the driver's order: the best connected ones of those that are visible.

    Empty for a single rank, and where it is not known which GPUs are visible and how they are connected.
    """
    # A GPU that is lost is missing in one of the two lists, and makes reading the other fail.
    if machine.interconnect is None or len(machine.interconnect.links) != len(machine.gpus) or ranks < 2:
        return ()
    numbers = visible_gpus(machine.gpus, machine.torch.gpus if machine.torch else (), environment)
    if numbers is None or not ranks <= len(numbers) <= MAX_GPUS:
        return ()
    among = _among(machine.interconnect, numbers)
    return tuple(numbers[index] for index in best_connected(among, ranks))


def _among(interconnect: Interconnect, gpus: Sequence[int]) -> Interconnect:
    return Interconnect(
        links=tuple(tuple(interconnect.links[one][other] for other in gpus) for one in gpus),
        cpus=tuple(interconnect.cpus[gpu] for gpu in gpus),
        numa_nodes=tuple(interconnect.numa_nodes[gpu] for gpu in gpus),
    )


def cores_of(context: KnobContext, affinity: str, ranks: int) -> Cores:
    """Return the logical CPUs of each rank: those near its GPU if every rank has some, else `cores_of_ranks`."""
    machine = context.machine
    if context.device == "cuda" and machine.interconnect is not None and (gpus := gpus_of_ranks(machine, ranks)):
        shares = cores_near(machine.interconnect, cpus_of(affinity, machine), machine.limits.cores, gpus)
        near = tuple(shares.values())
        if all(near):
            return near
    return cores_of_ranks(machine, affinity, ranks)


def share_of_rank(settings: Mapping[str, Value], context: KnobContext, local_rank: int, local_ranks: int) -> Settings:
    """Return the settings of one of the ranks on a machine: its cores, and its share of threads and loader workers.

    Settings count the threads and loader workers of all ranks of a machine together: `threads.intra_op = 8` under 4
    ranks is 2 threads in each. Each rank has at least one thread, and at least one worker unless there are none.
    """
    share = dict(settings)
    if local_ranks == 1:
        return share
    if "threads.intra_op" in share:
        share["threads.intra_op"] = max(1, int(share["threads.intra_op"]) // local_ranks)
    if workers := int(share.get("loader.workers", 0)):
        share["loader.workers"] = max(1, workers // local_ranks)
    if context.machine.system == "Linux":
        cores = cores_of(context, str(share.get("threads.affinity", "none")), local_ranks)
        share["threads.affinity"] = format_cpus(cores[local_rank])
    return share


def context_on(machine: Machine, device: str) -> KnobContext:
    """Return the context of a training on the device that a recipe names; on the machine's own if it has none such."""
    torch = machine.torch
    if torch is None or device.partition(":")[0] not in ("cpu", torch.device):
        return KnobContext(machine)
    return KnobContext(msgspec.structs.replace(machine, torch=msgspec.structs.replace(torch, device=device)))


def devices_of_ranks(context: KnobContext, ranks: int) -> dict[str, str]:
    """Return the variables that show ranks their GPUs, in the order of local ranks; none if these are not known."""
    gpus = gpus_of_ranks(context.machine, ranks) if context.device == "cuda" else ()
    if not gpus:
        return {}
    uuids = [context.machine.gpus[gpu].uuid for gpu in gpus]
    if all(uuids):
        return {"CUDA_VISIBLE_DEVICES": ",".join(uuids)}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))}
