"""This process among the ranks of one training; a process that trains alone counts as its only rank."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import Any

import torch
from torch import distributed
from torch.distributed import FileStore, PrefixStore, TCPStore  # type: ignore[attr-defined]  # not listed as public

from autoaccel.records.ranks import RankPlacement

# Whoever started the ranks watches over them; between its turns they may stand still for hours.
_PATIENCE = timedelta(days=7)
_control: list[distributed.ProcessGroup] = []  # for small numbers in the main memory, beside a backend that has no such
_joined: list[RankPlacement] = []  # at most one: a script's own process group is none of ours


SEEDS_APART = 1_000_003
"""From one rank's seed to the next: further apart than the seeds that people choose."""


def join(placement: RankPlacement, backend: str) -> None:
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
    """Return how many ranks there are, on all machines."""
    return distributed.get_world_size() if is_joined() else 1


def rank() -> int:
    """Return the rank of this process, from 0."""
    return distributed.get_rank() if is_joined() else 0


def leads() -> bool:
    """Whether this is the rank that decides, evaluates and writes."""
    return rank() == 0


def broadcast_decision(decision: bool) -> bool:
    """Return the decision of rank 0; every rank must call this. Without other ranks, return the argument."""
    if world_size() == 1:
        return decision
    told = torch.tensor([decision], dtype=torch.uint8)
    distributed.broadcast(told, src=0, group=_group())
    return bool(told.item())


def all_reduce_sum(value: float) -> float:
    """Return the sum over all ranks; every rank must call this. Without other ranks, return the argument."""
    if world_size() == 1:
        return value
    summed = torch.tensor([value], dtype=torch.float64)
    distributed.all_reduce(summed, group=_group())
    return float(summed.item())


def all_equal(number: int) -> bool:
    """Whether all ranks have this number, below 2**63; every rank must call this. True without other ranks."""
    if world_size() == 1:
        return True
    # The largest of all, and the smallest of all with its sign changed.
    extremes = torch.tensor([number, -number], dtype=torch.int64)
    distributed.all_reduce(extremes, op=distributed.ReduceOp.MAX, group=_group())
    return bool(extremes[0] == -extremes[1])


def broadcast_object(thing: Any) -> Any:
    """Return the object of rank 0, tensors included; every rank must call this. Without others, return the argument."""
    if world_size() == 1:
        return thing
    things = [thing]
    distributed.broadcast_object_list(things, src=0, group=_group())
    return things[0]


def _group() -> distributed.ProcessGroup | None:
    return _control[0] if _control else None
