"""Observations of a training that has no problem, to plant one in."""

from __future__ import annotations

from typing import Any

import msgspec

from autoaccel.records.conditions import (
    Alone,
    Evaluation,
    Loader,
    MachineConditions,
    Model,
    Optimizer,
    Part,
    Samples,
    TrainingConditions,
)
from autoaccel.records.profile import PHASES, GpuTimes, Profile
from autoaccel.records.rates import Rates

CONDITIONS = TrainingConditions(
    date="2026-11-22",
    environment={},
    batch_samples=64,
    batch_bytes=1 << 20,
    batch_dtypes=("float32", "int64"),
    device="cpu",
    threads=4,
    torch_version="2.13.0",
    anomaly_mode=False,
    deterministic=False,
    fills_memory=True,
    profilers=(),
    autocast=True,
    flushes_denormals=False,
    gradients=True,
    float32_matmul="high",
    cuda_available=False,
    model=Model(
        dtypes={"float32": 1.0},
        has_data_parallel=False,
        channels_last=True,
        convolution_share=0.5,
        odd_share=0.0,
        denormal_share=0.0,
        parameter_tensors=10,
    ),
    optimizer=Optimizer("Adam", fused=True, foreach=False),
    loader=Loader(workers=3, pins_memory=True, persistent=True, prefetch=2),
    samples=Samples(
        seconds=1e-3,
        busy_seconds=1e-3,
        bytes=4096,
        collate_seconds=1e-5,
        handover_seconds=1e-5,
        parts=(Part("rotate", 0.15), Part("crop", 0.1)),
    ),
    evaluation=Evaluation(seconds=0.1, batches=4, has_gradients=False),
    alone=Alone(step_seconds=0.1, min_seconds=0.1),
)

MACHINE_CONDITIONS = MachineConditions(
    governor="performance",
    clock_driver="acpi-cpufreq",
    clock_share=1.0,
    turbo=True,
    swap_used_bytes=0,
    swapped_bytes_per_second=0.0,
    available_bytes=8 << 30,
    busy_share=0.0,
    stolen_share=0.0,
    throttled_periods=0,
    gpu_throttling=(),
)

RATES = Rates(
    device="cpu",
    threads=4,
    matmul={"float32": 1e11, "bfloat16": 4e11, "float64": 4e10},
    convolution={"float32": 1e11, "bfloat16": 4e11, "float64": 2e10},
    memory_bytes_per_second=1e10,
    array_bytes=1 << 28,
)

QUIET_GPU = GpuTimes(busy_share=0.99, kernels_per_step=100, median_kernel_seconds=1e-4, gap_seconds=1e-3)


def profile(phases: dict[str, float] | None = None, **changes: Any) -> Profile:
    """Return a profile of a step of 0.1 s; what the named phases leave is forward and backward."""
    shares = dict.fromkeys(PHASES, 0.0) | (phases or {})
    rest = 1 - sum(shares.values())
    shares["forward"] += rest / 3
    shares["backward"] += rest - rest / 3
    plain = Profile(
        step_seconds=0.1,
        samples_per_second=640.0,
        phases=shares,
        operators=(),
        groups={},
        peak_bytes=1 << 30,
        parameters=1000,
        steps=20,
        operator_calls_per_step=100,
        operator_seconds=1e-4,
        large_operator_seconds=0.09,
        minor_faults_per_step=10.0,
        major_faults_per_step=0.0,
    )
    return msgspec.structs.replace(plain, **changes)


def changed(record: Any, change: Any) -> Any:
    """Return a record with some fields changed; a dict changes fields of a field in the same way."""
    if not isinstance(change, dict):
        return change
    changes = {}
    for name, value in change.items():
        old = getattr(record, name)
        changes[name] = changed(old, value) if isinstance(old, msgspec.Struct) else value
    return msgspec.structs.replace(record, **changes)
