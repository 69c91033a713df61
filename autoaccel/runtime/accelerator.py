"""The device that a training runs on, where that is not the CPU.

Only this module asks for what CUDA alone has, except for the side stream that a knob of the loader makes.
Such a device works asynchronously: the program queues operators and continues. `torch.accelerator` covers all of them
(CUDA, Apple's mps, Intel's xpu); it exists since torch 2.6, and reports memory since 2.9.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import psutil
import torch

Mark = float | torch.Event
"""A point in the work of a device: of a CPU the clock's seconds."""


def default_device() -> torch.device:
    """Return the accelerator if there is one, else the CPU."""
    # In torch 2.6 current_accelerator() raises an error where there is none.
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return found or torch.device("cpu")


def synchronize(device: torch.device) -> None:
    """Wait until the device has done everything that is queued."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def mark(device: torch.device) -> Mark:
    """Return the point that the device reaches when it has done everything queued so far. This does not wait."""
    if device.type == "cpu":
        return time.perf_counter()
    event = torch.Event(device, enable_timing=True)
    event.record(torch.accelerator.current_stream(device))
    return event


def seconds_between(before: Mark, after: Mark) -> float:
    """Return how long the device took from one mark to a later one; it waits until the device is there."""
    if isinstance(before, float) or isinstance(after, float):
        assert isinstance(before, float) and isinstance(after, float)  # marks of one device
        return after - before
    after.synchronize()
    return before.elapsed_time(after) / 1000


def peak_bytes(device: torch.device) -> int:
    """Return the most memory held so far: on the accelerator, where torch tells, or else by this process."""
    if device.type != "cpu":
        memory = getattr(torch, device.type)  # torch.mps keeps no record of its peak
        if hasattr(memory, "max_memory_allocated"):
            return int(memory.max_memory_allocated(device))
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux reports ru_maxrss in KiB, macOS in bytes.
    return peak if sys.platform == "darwin" else peak * 1024


def free_bytes(device: torch.device) -> int:
    """Return how much memory is free: of the accelerator, where torch tells, or else of the computer."""
    memory: Any = getattr(torch, device.type)
    if device.type != "cpu" and hasattr(memory, "mem_get_info"):
        return int(memory.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def cache_bytes(device: torch.device, of_cpu: int) -> int:
    """Return the size of the device's largest cache; that of the CPU where torch does not tell.

    Args:
        device: Where the training runs.
        of_cpu: The size of the CPU's largest cache.
    """
    return int(torch.cuda.get_device_properties(device).L2_cache_size) if device.type == "cuda" else of_cpu


def cuda_graphs(device: torch.device) -> int:
    """Return how many functions of compiled models Inductor replays as CUDA graphs in this process."""
    if device.type != "cuda":
        return 0
    from torch._inductor.cudagraph_trees import get_manager

    index = torch.cuda.current_device() if device.index is None else device.index
    manager = get_manager(index, create_if_none_exists=False)
    return len(manager.roots) if manager is not None else 0


def device_name(device: torch.device) -> str:
    """Return what people call the device."""
    memory: Any = getattr(torch, device.type)
    if hasattr(memory, "get_device_name") and device.type != "cpu":
        return str(memory.get_device_name(device))
    return device.type.upper()


def has_triton(device: torch.device) -> bool:
    """Whether Triton is there and generates code for such a device, as Inductor decides it."""
    if device.type not in ("cuda", "xpu"):
        return False
    from torch.utils._triton import has_triton as found

    return bool(found())


def gpu_uuids() -> tuple[str, ...]:
    """Return the UUIDs of the GPUs that CUDA shows, in its order, as NVML writes them; none without CUDA."""
    if not torch.cuda.is_available():
        return ()
    found = (torch.cuda.get_device_properties(index).uuid for index in range(torch.cuda.device_count()))
    return tuple(f"GPU-{uuid}" for uuid in found)


def uses_cuda() -> bool:
    """Whether this process has begun to use CUDA."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]  # torch leaves it untyped


def has_expandable_segments() -> bool:
    """Whether some of CUDA's memory in this process lies in segments that grow in place."""
    segments = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return any(segment.get("is_expandable") for segment in segments)
