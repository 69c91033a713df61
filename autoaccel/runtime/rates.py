"""What this machine can do at most: dense arithmetic per dtype, memory, copies, sums over processes. Takes seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch.nn import functional

from autoaccel.records.rates import Rates
from autoaccel.runtime.accelerator import cache_bytes, free_bytes, synchronize

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_ENOUGH_SECONDS = 0.03  # that a call should take before its rate is believed
_REPEATS = 3
_MAX_SECONDS = 0.3  # for all sizes of one kind and dtype; a size that is begun is finished
_SIDES = (128, 256, 512, 1024, 2048, 4096, 8192)
_LARGEST_ARRAY = 1 << 29  # bytes; more would take seconds to fill where memory is slow
_MEMORY_SHARE = 1 / 16  # of what is free, for each of two arrays
_CACHES = 4  # STREAM: each array at least four times the size of the last cache (McCalpin, 1995)
_SPEEDUP_SIDES = (128, 512)
"""Of matrices: the first shows whether the second would take seconds. With larger ones, whose products take longer than
a process is left alone, the ratio varied twofold beside another process; with these by 5 % (a Xeon, two cores)."""
_SPEEDUP_TURNS = 16
_SPEEDUP_SECONDS, _FEW_TURNS = 0.25, 3
"""After which no further turns begin, if there were a few. Beside others, each call of two threads takes a tenth of a
second, and sixteen turns of two types held a training up for eight seconds (two cores, torch 2.13)."""
_EMULATED = 0.25  # times as fast as float32: no instructions do that
_COPIED_BYTES = 64 << 20
_REDUCED_NUMBERS = 4 << 20


def measure_rates(device: torch.device, cpu_cache_bytes: int) -> Rates:
    """Return the highest rates that simple programs reach on the device with the present number of threads.

    Args:
        device: Where the training runs.
        cpu_cache_bytes: Of the CPU's largest cache; the arrays that are copied should be four times as large as the
            largest of the device.
    """
    start = time.perf_counter()
    array_bytes = _array_bytes(device, cpu_cache_bytes)
    on_gpu = device.type in ("cuda", "xpu")  # others share the computer's memory
    return Rates(
        device=device.type,
        threads=torch.get_num_threads(),
        matmul={_name(dtype): rate for dtype in DTYPES if (rate := _matmul_rate(device, dtype))},
        convolution={_name(dtype): rate for dtype in DTYPES if (rate := _convolution_rate(device, dtype))},
        memory_bytes_per_second=_memory_rate(device, array_bytes),
        array_bytes=array_bytes,
        pageable_bytes_per_second=_copy_rate(device, pinned=False) if on_gpu else None,
        pinned_bytes_per_second=_copy_rate(device, pinned=True) if on_gpu else None,
        all_reduce_bytes_per_second=_all_reduce_rate(device) if _is_distributed() else None,
        channels_first=_convolution_rate(device, torch.float32, torch.contiguous_format),
        measured_seconds=time.perf_counter() - start,
    )


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    """Return the shortest time of a few calls: what disturbs them only makes them longer."""
    _once(work, device)
    return min(_once(work, device) for _ in range(_REPEATS))


def _once(work: Callable[[], object], device: torch.device) -> float:
    start = time.perf_counter()
    work()
    synchronize(device)
    return time.perf_counter() - start


def _growing_rate(work_of: Callable[[int], tuple[Callable[[], object], float]], device: torch.device) -> float | None:
    """Return the best rate among sizes that grow until a call takes long enough; None if the dtype is not supported."""
    best, start = 0.0, time.perf_counter()
    for side in _SIDES:
        if time.perf_counter() - start > _MAX_SECONDS / 2:  # the next size takes longer than all before it together
            break
        try:
            work, flops = work_of(side)
            seconds = _seconds(work, device)
        except (RuntimeError, TypeError):  # of float64 mps says TypeError
            break
        best = max(best, flops / seconds)
        if seconds > _ENOUGH_SECONDS:
            break
    return best or None


def _matmul_rate(device: torch.device, dtype: torch.dtype) -> float | None:
    with torch.no_grad():
        return _growing_rate(lambda side: (_product(side, device, dtype), 2.0 * side**3), device)


def _product(side: int, device: torch.device, dtype: torch.dtype) -> Callable[[], object]:
    left, right = (torch.ones(side, side, device=device, dtype=dtype) for _ in range(2))
    return lambda: left @ right


def product_speedup(dtype: torch.dtype) -> float | None:
    """Return how many times as fast as in float32 the CPU multiplies matrices in a dtype; None if it cannot.

    Both take turns, and the best of each counts, because other processes may compute meanwhile. Takes about a tenth of
    a second on two cores.
    """
    device, speedup = torch.device("cpu"), None
    for side in _SPEEDUP_SIDES:
        works = [_product(side, device, one) for one in (torch.float32, dtype)]
        turns: list[list[float]] = []
        began = time.perf_counter()
        try:
            while len(turns) < _FEW_TURNS or (
                len(turns) < _SPEEDUP_TURNS and time.perf_counter() - began < _SPEEDUP_SECONDS
            ):
                turns.append([_once(work, device) for work in works])
        except RuntimeError:
            break
        in_float32, in_dtype = (min(of_one) for of_one in zip(*turns, strict=True))
        speedup = in_float32 / in_dtype
        if speedup < _EMULATED:
            break
    return speedup


def _convolution_rate(
    device: torch.device, dtype: torch.dtype, layout: torch.memory_format = torch.channels_last
) -> float | None:
    """Return the rate of 3 x 3 convolutions of 64 to 64 channels, as in a ResNet; None if the dtype does not work."""

    def work_of(side: int) -> tuple[Callable[[], object], float]:
        batch, pixels = max(1, side // 64), 28
        images = torch.ones(batch, 64, pixels, pixels, device=device, dtype=dtype)
        images = images.contiguous(memory_format=layout)
        weight = torch.ones(64, 64, 3, 3, device=device, dtype=dtype).contiguous(memory_format=layout)
        flops = 2.0 * batch * 64 * 64 * 9 * pixels**2
        return lambda: functional.conv2d(images, weight, padding=1), flops

    with torch.no_grad():
        return _growing_rate(work_of, device)


def _array_bytes(device: torch.device, cpu_cache_bytes: int) -> int:
    wanted = max(_COPIED_BYTES, _CACHES * cache_bytes(device, of_cpu=cpu_cache_bytes))
    return int(min(wanted, _LARGEST_ARRAY, max(_COPIED_BYTES / 4, _MEMORY_SHARE * free_bytes(device))))


def _memory_rate(device: torch.device, array_bytes: int) -> float:
    source = torch.ones(array_bytes // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    return 2 * array_bytes / _seconds(lambda: target.copy_(source), device)


def _copy_rate(device: torch.device, pinned: bool) -> float:
    source = torch.ones(_COPIED_BYTES // 4, dtype=torch.float32, pin_memory=pinned)
    target = torch.empty_like(source, device=device)
    return _COPIED_BYTES / _seconds(lambda: target.copy_(source), device)


def _all_reduce_rate(device: torch.device) -> float:
    vector = torch.ones(_REDUCED_NUMBERS, dtype=torch.float32, device=device)
    return 4 * _REDUCED_NUMBERS / _seconds(lambda: torch.distributed.all_reduce(vector), device)
