"""GPUs as the driver's management library (NVML) names them; having none is normal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from autoaccel.records.machine import Gpu

_THROTTLING = {
    "HwThermalSlowdown": "it is too hot: improve its cooling",
    "SwThermalSlowdown": "it is too hot: improve its cooling",
    "HwPowerBrakeSlowdown": "the power supply holds it back",
    "SwPowerCap": "it is at its power limit: nvidia-smi --power-limit shows and sets that",
}
"""Part of NVML's name of a reason for lower clocks -> what it means and what to do."""

_Value = TypeVar("_Value")

_LEAST_TAKEN = 64 << 20  # bytes; less than any process takes that has begun to use a GPU


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
        if taken > _LEAST_TAKEN and (gpu.is_exclusive or taken > gpu.total_bytes - gpu.used_bytes):
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


def read_gpu_throttling() -> tuple[str, ...]:
    """Return one sentence for each GPU whose clocks are held down now, with what to do."""

    def all_hints(pynvml: Any) -> tuple[str, ...]:
        return tuple(_throttling_of(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))

    none: tuple[str, ...] = ()
    return tuple(hint for hint in ask_driver(all_hints, none) if hint)


def _throttling_of(pynvml: Any, index: int) -> str:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        reasons = int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except pynvml.NVMLError:
        return ""  # not every GPU tells, nor every user may ask
    for name, meaning in _THROTTLING.items():
        # The constants were renamed from "throttle" to "event" reasons; a driver's library may know only one.
        for prefix in ("nvmlClocksEventReason", "nvmlClocksThrottleReason"):
            if reasons & int(getattr(pynvml, prefix + name, 0)):
                return f"GPU {index} is slowed down: {meaning}"
    return ""


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
