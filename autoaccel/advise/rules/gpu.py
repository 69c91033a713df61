"""Rules about GPUs."""

from __future__ import annotations

from autoaccel.advise.observations import Gain, Observations, Rule, make_finding
from autoaccel.records.profile import Finding

_IDLE = 0.15  # of the step
_NOTICEABLE = 0.02
_SMALL_KERNEL = 10e-6  # seconds; launching one takes about 5 (NVIDIA, "Understanding the overhead of kernel launches")


def host_to_device(observed: Observations) -> Finding | None:
    """Preparing batches and copying them to the GPU."""
    if not observed.machine.gpus:
        return None
    share = observed.phases("host to device", "data wait")
    return make_finding(
        "host-to-device",
        f"preparing and copying batches takes {share:.1%} of the step",
        Gain(share, removable=0.3),
        "Batches in pinned memory are copied faster.",
        knobs=("loader.pin_memory", "loader.non_blocking", "loader.side_stream"),
    )


def pageable_batches(observed: Observations) -> Finding | None:
    """Batches are copied to the GPU from memory that the system may move."""
    conditions = observed.conditions
    if conditions is None or conditions.loader is None or not observed.on_gpu or conditions.loader.pins_memory:
        return None
    share = observed.phases("host to device")
    if share < _NOTICEABLE:
        return None
    rates = observed.rates
    pageable, pinned = (rates.pageable_bytes_per_second, rates.pinned_bytes_per_second) if rates else (None, None)
    gain = 1 - pageable / pinned if pageable and pinned and pinned > pageable else 0.5
    return make_finding(
        "pageable-batches",
        f"copying batches from pageable memory takes {share:.1%} of the step",
        Gain(share, removable=gain),
        "DataLoader(pin_memory=True), and tensor.to(device, non_blocking=True).",
        knobs=("loader.pin_memory", "loader.non_blocking"),
        numbers={"batch_bytes": conditions.batch_bytes, "removable_share": gain},
    )


def blocking_copies(observed: Observations) -> Finding | None:
    """The program waits for copies to the GPU."""
    gpu = observed.profile.gpu
    if gpu is None or gpu.blocking_copy_share < _NOTICEABLE:
        return None
    return make_finding(
        "blocking-copies",
        f"the program waits for copies to the GPU for {gpu.blocking_copy_share:.1%} of the step",
        Gain(gpu.blocking_copy_share, removable=0.7),
        "Copy from pinned memory with non_blocking=True, so that the next batch is copied while the GPU computes.",
        knobs=("loader.pin_memory", "loader.non_blocking", "loader.side_stream"),
        numbers={"blocking_copy_share": gpu.blocking_copy_share},
    )


def idle_gpu(observed: Observations) -> Finding | None:
    """The GPU waits for the program between kernels."""
    gpu = observed.profile.gpu
    if gpu is None:
        return None
    share = 1 - gpu.busy_share
    if share < _IDLE:
        return None
    small = gpu.median_kernel_seconds < _SMALL_KERNEL
    return make_finding(
        "idle-gpu",
        f"the GPU is idle for {share:.0%} of the step, between {gpu.kernels_per_step:,.0f} kernels of "
        f"{gpu.median_kernel_seconds * 1e6:.3g} µs",
        Gain(share, removable=0.6),
        'torch.compile(mode="reduce-overhead") launches them as one graph; larger batches make them longer.'
        if small
        else "Prepare batches earlier, and do not read numbers out of tensors within the step.",
        knobs=("compile.mode",) if small else ("loader.workers", "loader.side_stream"),
        numbers={
            "busy_share": gpu.busy_share,
            "kernels_per_step": gpu.kernels_per_step,
            "median_kernel_seconds": gpu.median_kernel_seconds,
            "gap_seconds": gpu.gap_seconds,
        },
    )


def throttled_gpu(observed: Observations) -> Finding | None:
    """A GPU lowers its clocks while the training is profiled."""
    machine_conditions = observed.machine_conditions
    if machine_conditions is None or not machine_conditions.gpu_throttling or not observed.on_gpu:
        return None
    return make_finding(
        "throttled-gpu",
        machine_conditions.gpu_throttling[0],
        Gain(0.3 * (1 - observed.data_wait), removable=0.5),  # clocks fall by up to a third before a GPU stops
        "nvidia-smi -q -d PERFORMANCE,CLOCK shows by how much.",
    )


RULES: dict[str, Rule] = {
    "host-to-device": host_to_device,
    "pageable-batches": pageable_batches,
    "blocking-copies": blocking_copies,
    "idle-gpu": idle_gpu,
    "throttled-gpu": throttled_gpu,
}
