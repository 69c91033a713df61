"""GPUs as the driver's management library (NVML) names them; having none is normal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from autoaccel.records.machine import Gpu

_Value = TypeVar("_Value")

_MIN_TAKEN = 64 << 20  # bytes; less than any process takes that has begun to use a GPU


class GpuUse(NamedTuple):
    """Who uses a GPU, as far as memory tells."""

    uuid: str
    used_bytes: int  # by all processes together, as one in a container may not see whose they are
    total_bytes: int
    is_exclusive: bool  # only one process may use it at a time (nvidia-smi --compute-mode)


def read_gpu_use() -> tuple[GpuUse, ...]:
    """Return how much of each GPU's memory is used now; none without NVML."""

    def all_uses(pynvml: Any) -> tuple[GpuUse, ...]:
        found = (_read_use(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
        return tuple(use for use in found if use is not None)

    none: tuple[GpuUse, ...] = ()
    return ask_driver(all_uses, none)


def _read_use(pynvml: Any, index: int) -> GpuUse | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        uuid, mode = str(pynvml.nvmlDeviceGetUUID(handle)), pynvml.nvmlDeviceGetComputeMode(handle)
    except pynvml.NVMLError:
        return None  # it is lost, or shares the computer's memory
    return GpuUse(uuid, int(memory.used), int(memory.total), mode == pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)


def fills_a_gpu(before: Sequence[GpuUse], since: Sequence[GpuUse]) -> bool:
    """Whether no second process like the one that has started between two looks would find room on its GPUs."""
    used = {gpu.uuid: gpu.used_bytes for gpu in before}
    for gpu in since:
        taken = gpu.used_bytes - used.get(gpu.uuid, gpu.used_bytes)
        if taken > _MIN_TAKEN and (gpu.is_exclusive or taken > gpu.total_bytes - gpu.used_bytes):
            return True
    return False


def ask_driver(question: Callable[[Any], _Value], otherwise: _Value) -> _Value:
    """Return the answer of NVML to a question, or something else without a GPU, its driver, or the module."""
    try:
        import pynvml  # late: most computers have no GPU, and every start would pay for it
    except ImportError:
        return otherwise
    try:
        pynvml.nvmlInit()
        try:
            return question(pynvml)
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        # No library, no driver loaded, no right to use it, or a driver half updated: no process here gets at a GPU.
        return otherwise


def read_gpus() -> tuple[Gpu, ...]:
    """Return the GPUs in NVML's order; none without a GPU, its driver, or the module that asks it.

    These are the computer's: CUDA_VISIBLE_DEVICES hides none of them.
    """

    def all_gpus(pynvml: Any) -> tuple[Gpu, ...]:
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        found = [_read_gpu(pynvml, index, driver) for index in range(pynvml.nvmlDeviceGetCount())]
        return tuple(gpu for gpu in found if gpu is not None)

    none: tuple[Gpu, ...] = ()
    return ask_driver(all_gpus, none)


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
    try:
        uuid = str(pynvml.nvmlDeviceGetUUID(handle))
    except pynvml.NVMLError:
        uuid = ""
    return Gpu(name, memory_bytes, driver, uuid)
