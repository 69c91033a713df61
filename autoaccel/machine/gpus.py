"""GPUs as the driver's management library (NVML) names them; having none is normal."""

from __future__ import annotations

from typing import Any

from autoaccel.records.machine import Gpu


def read_gpus() -> tuple[Gpu, ...]:
    """Return the GPUs in NVML's order; none without a GPU, its driver, or the module that asks it.

    These are the computer's: CUDA_VISIBLE_DEVICES hides none of them.
    """
    try:
        import pynvml  # late: most computers have no GPU, and every start would pay for it
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
        try:
            driver = str(pynvml.nvmlSystemGetDriverVersion())
            gpus = [_read_gpu(pynvml, index, driver) for index in range(pynvml.nvmlDeviceGetCount())]
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        # No library, no driver loaded, no right to use it, or a driver half updated: no process here gets at a GPU.
        return ()
    return tuple(gpu for gpu in gpus if gpu is not None)


def _read_gpu(pynvml: Any, index: int, driver: str) -> Gpu | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        name = str(pynvml.nvmlDeviceGetName(handle))
    except pynvml.NVMLError:
        # A GPU that this container may not use, or that has fallen off the bus: training cannot use it either.
        return None
    try:
        memory_bytes = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    except pynvml.NVMLError_NotSupported:
        # A GPU that shares the computer's memory has none of its own.
        memory_bytes = 0
    return Gpu(name, memory_bytes, driver)
