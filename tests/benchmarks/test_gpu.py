"""The run on a GPU, as far as it can be followed without one."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoaccel.records.machine import TorchFacts
from autoaccel.records.messages import Failure, GiveTurn, Turn
from autoaccel.records.trial import Measurement
from autoaccel.space.knobs import KNOBS, KnobContext, default_settings
from benchmarks.checks import gpu
from benchmarks.harness import rows
from benchmarks.page.gpu import on_gpu

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(rows, "RESULTS", tmp_path)
    return tmp_path


def test_without_a_gpu_it_says_so_and_exits_with_2(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "gpu_name", lambda: "")
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    assert gpu.main() == 2
    assert "There is no CUDA GPU that torch could use here. Nothing was measured." in capsys.readouterr().err
    assert list(results.iterdir()) == []


@pytest.mark.parametrize(("arguments", "tune_seconds"), [((), 79), (("--tune-seconds", "300"), 300)])
def test_what_fails_is_a_row_and_what_follows_is_measured_all_the_same(
    arguments: tuple[str, ...], tune_seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(until: float) -> dict[str, Any]:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(gpu, "gpu_name", lambda: "NVIDIA H100")
    monkeypatch.setattr(gpu, "contract", fails)
    monkeypatch.setattr(
        gpu, "tuned", lambda name, seconds, tune_seconds: {"budget": tune_seconds, "compared": {}, "peer": {}}
    )
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--seconds", "400", *arguments])
    monkeypatch.delenv("OUT", raising=False)
    assert gpu.main() == 0
    found = rows.read_rows("gpu")
    assert [(row.name, row.status) for row in found] == [
        ("contract", "failed"),
        ("transformer", "measured"),
        ("resnet18", "measured"),
    ]
    assert "illegal memory access" in found[0].reason
    assert found[1].found["budget"] == pytest.approx(tune_seconds, abs=1)  # of 200 s, as long as nothing else says so
    assert all(row.found["gpu"] == "NVIDIA H100" and row.made.date and row.made.commit for row in found)


class Bench:
    """A starter whose processes show what they are asked for; under channels-last they fail."""

    def start_measuring(self, settings: Any, name: str, timeout_seconds: float) -> Any:
        if settings["layout.channels_last"]:
            return Failure("raised", "RuntimeError: no")
        return self

    def take_turn(self, order: GiveTurn, timeout_seconds: float) -> Turn:
        return Turn((0.01,))

    @property
    def measurement(self) -> Measurement:
        return Measurement(1.0, (0.01,), (Turn((0.01,)),), learned={"optimizer.fused": "fused Adam"})

    def close(self) -> None:
        pass


def test_a_knob_shows_its_effect_or_fails_or_is_not_reached(context: KnobContext) -> None:
    bench: Any = Bench()
    assert gpu.shown_by("optimizer.fused", context, bench, math.inf)["shown"] == "fused Adam"
    assert gpu.shown_by("layout.channels_last", context, bench, math.inf)["failure"] == "raised: RuntimeError: no"
    assert gpu.shown_by("optimizer.fused", context, bench, 0.0) == {"not reached": "time was up"}
    assert "no accelerator" in gpu.shown_by("loader.pin_memory", context, bench, math.inf)["unavailable"]


def test_a_knob_is_tried_with_what_it_cannot_do_without(context: KnobContext) -> None:
    """Flash attention in float32 would be a failure of the contract that is none of the knob's."""
    kernels = {"flash": ("bfloat16",), "math": ("float32", "bfloat16")}
    torch = TorchFacts("2.13.0", 4, 4, "AVX2", "cuda", "NVIDIA H100", ("bfloat16",), True, attention=kernels)
    machine = msgspec.structs.replace(context.machine, torch=torch)
    here = KnobContext(machine, msgspec.structs.replace(context.training, device="cuda"))
    assert gpu.wish(KNOBS["model.attention"], here) == {
        "model.attention": "flash",
        "precision.autocast": "bfloat16",
    }


@pytest.mark.parametrize(
    ("precision", "expected"),
    [
        ("fp32_default", {}),
        ("tf32", {"precision.float32_matmul": "high", "precision.cudnn_benchmark": True}),
        (
            "amp_fp16",
            {
                "precision.float32_matmul": "high",
                "precision.cudnn_benchmark": True,
                "precision.autocast": "float16",
            },
        ),
    ],
)
def test_the_peers_configurations_are_settings(context: KnobContext, precision: str, expected: dict[str, Any]) -> None:
    """As TrialConfig of pytorch-autotune 2.0.0 names them."""
    config = {"precision": precision, "compile": "reduce-overhead", "channels_last": True, "fused_opt": True}
    own = {"compile.mode": "reduce-overhead", "layout.channels_last": True, "optimizer.fused": True}
    assert gpu.settings_of_peer(config) == own | expected
    assert gpu.settings_of_peer(config).keys() <= default_settings(context).keys()


def test_a_command_that_fails_or_takes_too_long_says_so() -> None:
    with pytest.raises(gpu.NotMeasuredError, match="exit status 3: its last words"):
        gpu.output_of([sys.executable, "-c", "import sys; print('its last words', file=sys.stderr); sys.exit(3)"], 60)
    with pytest.raises(gpu.NotMeasuredError, match="longer than 1 s"):
        gpu.output_of([sys.executable, "-c", "import time; time.sleep(60)"], 1)


def test_the_page_shows_rows_of_a_gpu() -> None:
    found = {
        "contract": {"gpu": "NVIDIA H100", "knobs": {"a": {"shown": "x"}, "b": {"failure": "y"}, "c": {"shown": ""}}},
        "transformer": {
            "gpu": "NVIDIA H100",
            "budget_seconds": 450,
            "summary": "2.10x faster steps.",
            "compared": {"autoaccel": {"speedup": 2.0, "low": 1.9, "high": 2.1}, "other": {"failure": "memory"}},
            "peer": {"failure": "it could not be installed"},
        },
    }
    lines = on_gpu(found)
    assert "2 were applied; 1 of these leave something" in lines[0] and "1 failed" in lines[0]
    assert lines[1] == "- NVIDIA H100, transformer, a tune of 450 s: 2.10x faster steps."
    assert "autoaccel: 2.00 (1.90 to 2.10)" in lines[2]
    assert lines[3].endswith("memory") and lines[4].endswith("it could not be installed")


def test_the_peer_finds_the_workloads_by_their_names() -> None:
    assert all(f'"{name}": {name}' in (ROOT / "benchmarks/workloads/gpu.py").read_text() for name in gpu.NAMES)
