"""Which of the computer's GPUs CUDA shows to this process, and in which order: CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from autoaccel.records.machine import Gpu


def visible_gpus(
    gpus: Sequence[Gpu], told: Sequence[str] = (), environment: Mapping[str, str] = os.environ
) -> tuple[int, ...] | None:
    """Return the indices in `gpus` of those that CUDA shows, in CUDA's order; None where that cannot be known.

    A number in the variable counts GPUs by speed, the fastest first, unless CUDA_DEVICE_ORDER is PCI_BUS_ID; only
    NVML's counts them by bus. Where they are of one kind, both orders are the same. Parts of a GPU (MIG) are none of
    these. From the first name on that names nothing, CUDA shows nothing (CUDA programming guide, "CUDA environment
    variables").

    Args:
        gpus: In NVML's order.
        told: UUIDs in CUDA's order, if CUDA has told them here.
        environment: The process's variables.
    """
    places = {gpu.uuid: place for place, gpu in enumerate(gpus) if gpu.uuid}
    if told and all(uuid in places for uuid in told):
        return tuple(places[uuid] for uuid in told)
    text = environment.get("CUDA_VISIBLE_DEVICES")
    by_bus = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({gpu.name for gpu in gpus}) <= 1
    if text is None:
        return tuple(range(len(gpus))) if by_bus else None
    found: list[int] = []
    for name in (part.strip() for part in text.split(",")):
        if name.startswith("MIG-"):
            return None
        if name.isdecimal() and not by_bus:
            return None
        named = [int(name)] if name.isdecimal() else [place for uuid, place in places.items() if _names(name, uuid)]
        if len(named) != 1 or named[0] >= len(gpus) or named[0] in found:
            break
        found += named
    return tuple(found)


def _names(name: str, uuid: str) -> bool:
    """Whether a name is a UUID or the beginning of it."""
    return name.startswith("GPU-") and uuid.startswith(name)
