"""This process among those that train together, its ranks: who writes, what all agree on, whose share is what.

A process that trains alone answers as the only one: it leads, its share is all, and what it has all have.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
from torch import distributed
from torch.distributed import FileStore, PrefixStore, TCPStore  # type: ignore[attr-defined]  # not listed as public

from autoaccel.records.ranks import Placement

Thing = TypeVar("Thing")

# Whoever started the ranks watches over them; between its turns they may stand still for hours.
_PATIENCE = timedelta(days=7)
_control: list[distributed.ProcessGroup] = []  # for small numbers in the main memory, beside a backend that has no such
_joined: list[Placement] = []  # at most one: a script's own process group is none of ours
_SEEDS_APART = 1_000_003  # from one rank's seed to the next: further apart than the seeds that people choose


def join_others(placement: Placement, backend: str) -> None:
    """Join the process group of all ranks, and wait for the others."""
    file = placement.rendezvous_file
    if file is not None:
        # All are on this machine. Gloo would take the address that its host name stands for, if that is any at all.
        _use_loopback()
    if (devices := torch.accelerator.device_count()) > 1:
        torch.accelerator.set_device_index(placement.local_rank % devices)
    if backend == "ccl":
        import oneccl_bindings_for_pytorch  # noqa: F401  # it registers itself
    store = FileStore(file, placement.world_size) if file is not None else _agents_store()
    rendezvous: dict[str, Any] = {"init_method": "env://"} if store is None else {"store": store}
    rendezvous |= {"rank": placement.rank, "world_size": placement.world_size}
    distributed.init_process_group(backend, timeout=_PATIENCE, **rendezvous)
    _joined.append(placement)
    if backend != "gloo":
        _control.append(distributed.new_group(backend="gloo", timeout=_PATIENCE))


def _agents_store() -> PrefixStore | None:
    """Return where ranks meet if torchrun's agent keeps a store for them.

    It keeps one for all restarts, in which new ranks would find the addresses of dead ones and wait for them forever
    (pytorch#135712): each restart needs names of its own.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(address, port, is_master=False)
    return PrefixStore(f"attempt-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def _use_loopback() -> None:
    names = [name for _, name in socket.if_nameindex()]
    for name in ("lo", "lo0"):
        if name in names:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


def is_joined() -> bool:
    """Whether this process was told to join other ranks, as those of a script were not."""
    return bool(_joined) and distributed.is_initialized()


def world_size() -> int:
    """Return how many processes train together, on all machines."""
    return _place()[1]


def is_alone() -> bool:
    """Whether this process shares its training with no other."""
    return world_size() == 1


def leads() -> bool:
    """Whether this is the process that decides, evaluates and writes: the only one, or rank 0."""
    return _place()[0] == 0


def own_share() -> tuple[int, int]:
    """Return which share of each batch this process trains on, from 0, and how many shares there are."""
    return _place()


def own_seed(seed: int) -> int:
    """Return a seed for what must differ among the processes, such as dropout; that of the leader is the seed given."""
    return seed + _SEEDS_APART * _place()[0]


def own_device(device: torch.device) -> torch.device:
    """Return where this process trains: on this device, but of several processes each on the GPU that it was given."""
    return torch.device(device.type) if is_joined() else device


def agreed(decision: bool) -> bool:
    """Return what the leader has decided. All processes must ask, so that all do the same."""
    if is_alone():
        return decision
    told = torch.tensor([decision], dtype=torch.uint8)
    distributed.broadcast(told, src=0, group=_group())
    return bool(told.item())


def sum_of_all(value: float) -> float:
    """Return the sum of what the processes have; all must ask."""
    if is_alone():
        return value
    summed = torch.tensor([value], dtype=torch.float64)
    distributed.all_reduce(summed, group=_group())
    return float(summed.item())


def mean_of_all(value: float) -> float:
    """Return the mean of what the processes have; all must ask."""
    return sum_of_all(value) / world_size()


def all_equal(number: int) -> bool:
    """Whether all processes have this number, below 2**63; all must ask."""
    if is_alone():
        return True
    # The largest of all, and the smallest of all with its sign changed.
    extremes = torch.tensor([number, -number], dtype=torch.int64)
    distributed.all_reduce(extremes, op=distributed.ReduceOp.MAX, group=_group())
    return bool(extremes[0] == -extremes[1])


def read_once(read: Callable[[], Thing]) -> Thing:
    """Return what the leader reads, tensors included; it alone reads, and all processes must ask."""
    return cast(Thing, _broadcast(read() if leads() else None))


def _place() -> tuple[int, int]:
    """Return the rank of this process, and the world size."""
    return (distributed.get_rank(), distributed.get_world_size()) if is_joined() else (0, 1)


def _broadcast(thing: Any) -> Any:
    if is_alone():
        return thing
    things = [thing]
    distributed.broadcast_object_list(things, src=0, group=_group())
    return things[0]


def _group() -> distributed.ProcessGroup | None:
    return _control[0] if _control else None
