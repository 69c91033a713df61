"""Which values knobs have where the training runs on an accelerator: machines that are only data."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from autoaccel.errors import BadRequestError
from autoaccel.records.machine import Gpu, Machine, TorchFacts
from autoaccel.records.workload import TrainingFacts
from autoaccel.space.knobs import KNOBS, KnobContext, knob_rows
from autoaccel.space.search_space import load_space

# What torch's kernels take on a GPU of compute capability 8.0 and more (torch/nn/attention, sdp_utils.cpp).
KERNELS = {
    "flash": ("bfloat16", "float16"),
    "cudnn": ("bfloat16", "float16"),
    "efficient": ("float32", "bfloat16", "float16"),
    "math": ("float32", "bfloat16", "float16"),
}
OnDevice = Callable[..., KnobContext]


@pytest.fixture
def on_device(machine: Machine, facts: TrainingFacts) -> OnDevice:
    """Return a function that makes a training on an accelerator, with changes of the machine, torch or training."""

    def make(
        device: str = "cuda",
        dtype: str = "float32",
        c_compiler: str | None = "/usr/bin/gcc",
        headers: bool = True,
        triton: bool = True,
    ) -> KnobContext:
        kernels = KERNELS if device == "cuda" else {}
        shown = "NVIDIA H100", ("bfloat16", "float16"), True
        torch = TorchFacts("2.13.0+cu130", 4, 4, "AVX2", device, *shown, has_triton=triton, attention=kernels)
        here = msgspec.structs.replace(
            machine,
            torch=torch,
            gpus=(Gpu("NVIDIA H100", 80 << 30, "580.65"),),
            compiler=None,
            c_compiler=c_compiler,
            python_headers=headers,
        )
        return KnobContext(here, msgspec.structs.replace(facts, device=device, dtype=dtype))

    return make


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"c_compiler": None}, "no C compiler, which Triton needs: apt install gcc"),
        ({"headers": False}, "no Python.h, which Triton needs: apt install python3-dev"),
        ({"triton": False}, "pip install triton"),
        ({}, ""),
    ],
)
def test_compiling_for_a_gpu_needs_what_triton_needs(
    on_device: OnDevice, changes: dict[str, object], reason: str
) -> None:
    """It was offered whatever was missing, and each trial with it failed; a C++ compiler it does not need."""
    row = next(row for row in knob_rows(on_device(**changes)) if row.name == "compile.mode")
    assert reason in row.reason
    assert row.available == (not reason)


def forbidden_kernels(context: KnobContext, *wishes: str) -> set[tuple[str, str]]:
    space = load_space("default", context, wishes)
    assert "model.attention" in space.open or wishes
    return {
        (str(rule.settings["model.attention"]), str(rule.settings["precision.autocast"]))
        for rule in space.forbidden
        if rule.settings.keys() == {"model.attention", "precision.autocast"}
    }


def test_kernels_of_16_bits_are_tried_under_autocast_only(on_device: OnDevice) -> None:
    """Flash attention in float32 has no available kernel: a trial that must fail."""
    assert forbidden_kernels(on_device()) == {("flash", "off"), ("cudnn", "off")}


def test_a_model_in_16_bits_needs_no_autocast_for_them(on_device: OnDevice) -> None:
    assert forbidden_kernels(on_device(dtype="bfloat16")) == set()


def test_asking_for_a_kernel_without_its_dtype_is_refused(on_device: OnDevice) -> None:
    with pytest.raises(BadRequestError, match="does not support the dtype that autocast leaves"):
        forbidden_kernels(on_device(), "model.attention=flash", "precision.autocast=off")


@pytest.mark.parametrize("device", ["mps", "xpu"])
def test_what_is_cudas_alone_is_not_offered_elsewhere(on_device: OnDevice, device: str) -> None:
    """Whatever was no CPU was taken for CUDA."""
    rows = {row.name: row for row in knob_rows(on_device(device))}
    for name in ("precision.cudnn_benchmark", "precision.float32_matmul", "loader.side_stream", "model.attention",
                 "parallel.world_size", "memory.expandable_segments"):  # fmt: skip
        assert not rows[name].available, name
    assert rows["precision.autocast"].available
    assert rows["loader.pin_memory"].available == (device == "xpu")
    assert "reduce-overhead" not in KNOBS["compile.mode"].values(on_device(device))
