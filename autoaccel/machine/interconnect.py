"""How the GPUs of this machine are connected, according to NVML."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from autoaccel.machine.gpus import ask_driver
from autoaccel.records.machine import Interconnect


class _NvLinks(NamedTuple):
    """The active NVLinks of one GPU: how many lead to each other GPU, how many to switches."""

    direct: Counter[int]
    switched: int


def read_interconnect() -> Interconnect | None:
    """Return how this computer's GPUs are connected, according to NVML; None without a GPU, or if NVML cannot say."""

    def all_gpus(pynvml: Any) -> Interconnect | None:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        if not handles:
            return None
        addresses = [_address(pynvml.nvmlDeviceGetPciInfo(handle)) for handle in handles]
        nvlinks = [_read_nvlinks(pynvml, handle, addresses) for handle in handles]
        links = [["X"] * len(handles) for _ in handles]
        for one, other in itertools.combinations(range(len(handles)), 2):
            count = nvlinks[one].direct[other]
            if not count and _through_switch(pynvml, handles[one], handles[other]):
                count = min(nvlinks[one].switched, nvlinks[other].switched)
            link = f"NV{count}" if count else _read_distance(pynvml, handles[one], handles[other])
            links[one][other] = links[other][one] = link
        return Interconnect(
            links=tuple(tuple(row) for row in links),
            cpus=tuple(_read_cpus(pynvml, handle) for handle in handles),
            numa_nodes=tuple(_read_numa_node(pynvml, handle) for handle in handles),
        )

    none: Interconnect | None = None
    return ask_driver(all_gpus, none)


def _address(pci: Any) -> tuple[int, int, int]:
    return int(pci.domain), int(pci.bus), int(pci.device)


def _read_nvlinks(pynvml: Any, handle: Any, addresses: Sequence[tuple[int, int, int]]) -> _NvLinks:
    direct: Counter[int] = Counter()
    switched = 0
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            if pynvml.nvmlDeviceGetNvLinkState(handle, link) != pynvml.NVML_FEATURE_ENABLED:
                continue
        except pynvml.NVMLError:
            continue  # this kind of GPU has fewer links, or none
        try:
            kind = pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)
        except pynvml.NVMLError:
            kind = pynvml.NVML_NVLINK_DEVICE_TYPE_UNKNOWN
        try:
            address = _address(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link))
        except pynvml.NVMLError:
            address = None
        if address in addresses:
            direct[addresses.index(address)] += 1
        elif kind in (pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH, pynvml.NVML_NVLINK_DEVICE_TYPE_UNKNOWN):
            # A virtual machine does not see the switches: NCCL too takes a link to nowhere for a link to one of them.
            switched += 1
    return _NvLinks(direct, switched)


def _through_switch(pynvml: Any, one: Any, other: Any) -> bool:
    """Return whether two GPUs with links to switches reach each other there: a switch may be partitioned."""
    try:
        status = pynvml.nvmlDeviceGetP2PStatus(one, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
    except pynvml.NVMLError:
        return True  # not every driver tells
    return bool(status == pynvml.NVML_P2P_STATUS_OK)


def _read_distance(pynvml: Any, one: Any, other: Any) -> str:
    names = {
        pynvml.NVML_TOPOLOGY_INTERNAL: "PIX",  # two GPUs on one board
        pynvml.NVML_TOPOLOGY_SINGLE: "PIX",
        pynvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
        pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
        pynvml.NVML_TOPOLOGY_NODE: "NODE",
        pynvml.NVML_TOPOLOGY_SYSTEM: "SYS",
    }
    return names.get(pynvml.nvmlDeviceGetTopologyCommonAncestor(one, other), "SYS")


def _read_cpus(pynvml: Any, handle: Any) -> tuple[int, ...]:
    words = 32  # of 64 bits: 2048 CPUs
    try:
        return _bits(pynvml.nvmlDeviceGetCpuAffinityWithinScope(handle, words, pynvml.NVML_AFFINITY_SCOPE_NODE))
    except pynvml.NVMLError:
        return ()


def _read_numa_node(pynvml: Any, handle: Any) -> int | None:
    words = 16  # of 64 bits: Linux has at most 1024 memory nodes
    try:
        nodes = _bits(pynvml.nvmlDeviceGetMemoryAffinity(handle, words, pynvml.NVML_AFFINITY_SCOPE_NODE))
    except pynvml.NVMLError:
        return None
    return nodes[0] if len(nodes) == 1 else None


def _bits(words: Iterable[int]) -> tuple[int, ...]:
    return tuple(64 * place + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1)
