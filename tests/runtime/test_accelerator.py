"""The accelerator, played by objects with the methods of torch.Event and torch.accelerator: none is here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import TensorDataset

from autoaccel.records.messages import GiveTurn, Turn
from autoaccel.runtime import accelerator, rates
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.phases import timed_phases
from autoaccel.runtime.probing import attention_kernels
from autoaccel.runtime.steps import make_steps
from autoaccel.runtime.training import Training
from autoaccel.runtime.turns import taking_turn

DATA = TensorDataset(torch.randn(64, 8), torch.randint(2, (64,)))


def make_loop() -> Loop:
    training = Training(
        model=nn.Linear(8, 2),
        train_data=DATA,
        eval_data=DATA,
        batch_size=4,
        epochs=2,
        loss=nn.CrossEntropyLoss(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        evaluate="accuracy",
    )
    return Loop(training, Applied({}), seed=0)


class Device:
    """Its clock goes on by a millisecond with each event that it passes; it notes who waits for it."""

    def __init__(self) -> None:
        self.clock = itertools.count()
        self.waits: list[str] = []

    def event(self, device: torch.device, enable_timing: bool = False) -> Any:
        assert enable_timing
        return Event(self)


class Event:
    """What is asked of a torch.Event."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.at: int | None = None

    def record(self, stream: object) -> None:
        self.at = next(self.device.clock)

    def synchronize(self) -> None:
        self.device.waits.append("event")

    def elapsed_time(self, other: Event) -> float:
        assert self.device.waits, "torch refuses to tell before the later event is over"
        assert self.at is not None and other.at is not None
        return float(other.at - self.at)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    played = Device()
    monkeypatch.setattr(torch, "Event", played.event)
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda device: None)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device: played.waits.append("device"))
    return played


class _Reads(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Counts how often a number is read out of a tensor, for which a program waits."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        self.count += "_local_scalar_dense" in str(function)
        return function(*arguments, **(keywords or {}))


def test_no_loss_is_read_until_somebody_asks_for_it() -> None:
    """A read per batch makes the program wait for the device in each step: no run-ahead, in `run` as well."""
    loop = make_loop()
    loop.step()  # at the start of an epoch samplers draw a seed, which they read
    with _Reads() as reads:
        for _ in range(3):
            loop.step()
        assert reads.count == 0
        assert 0 < loop.last_loss < 10
        assert reads.count == 1


def test_a_turn_waits_for_an_accelerator_once_at_its_end(device: Device) -> None:
    """A synchronisation per step measures a program that never runs ahead, which the user's own does."""
    loop = make_loop()
    loop.device = torch.device("cuda")
    turn = make_steps(taking_turn(loop, GiveTurn(seconds=0.0, min_steps=3), None), loop.step)
    assert isinstance(turn, Turn)
    # Once at its end; then each step is asked how long it took: of its two marks one millisecond apart.
    assert device.waits == ["device", "event", "event", "event"]
    assert turn.step_seconds == (0.001, 0.001, 0.001)


def test_the_program_does_not_run_ahead_without_end(device: Device) -> None:
    """A turn of a model that CUDA graphs replay as one launch would last a thousand steps instead of some."""
    loop = make_loop()
    loop.device = torch.device("cuda")
    for _ in range(10):
        loop.step()
    assert 5 <= len(device.waits) <= 8


def test_phases_on_an_accelerator_are_told_after_the_last_step(device: Device) -> None:
    loop = make_loop()
    loop.device = torch.device("cuda")
    with timed_phases(loop) as clock:
        for _ in range(2):
            clock.start_step()
            loop.step()
    assert device.waits == []
    phases = clock.step_phases
    assert [sum(step.values()) > 0 for step in phases] == [True, True]
    assert phases[0]["data wait"] == pytest.approx(0.002)  # the step's own first mark lies within


def test_without_an_accelerator_the_cpu_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """In torch 2.6 current_accelerator() raises where there is none."""

    def raises() -> torch.device:
        raise RuntimeError("Cannot access accelerator device when none is available.")

    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", raises)
    assert accelerator.default_device() == torch.device("cpu")


@pytest.mark.parametrize("name", ["mps", "xpu", "cuda"])
def test_a_training_goes_where_the_accelerator_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only CUDA was looked for: on Apple's and Intel's devices everything ran on the CPU."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device(name))
    assert accelerator.default_device() == torch.device(name)


def test_a_device_that_does_not_tell_its_peak_is_told_by_the_process() -> None:
    """torch.mps has no max_memory_allocated; of it a memory in bytes is known nevertheless."""
    assert accelerator.peak_bytes(torch.device("mps")) == accelerator.peak_bytes(torch.device("cpu")) > 1 << 20


def test_bandwidth_is_measured_beyond_the_gpus_own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays four times the CPU's cache may lie within a GPU's of 50 MiB and more, which is several times as fast."""
    l2 = 60 << 20  # an H200's, as cudaDeviceProp.l2CacheSize has it
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(L2_cache_size=l2))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (130 << 30, 140 << 30))
    gpu = torch.device("cuda")
    assert rates._array_bytes(gpu, 8 << 20) == 4 * l2
    assert accelerator.cache_bytes(torch.device("cpu"), of_cpu=8 << 20) == 8 << 20


def test_free_memory_of_a_device_that_does_not_tell_is_the_computers() -> None:
    assert accelerator.free_bytes(torch.device("mps")) > 1 << 20


def test_attention_kernels_are_those_that_train() -> None:
    """Asked of the CPU, which has two of the four."""
    found = attention_kernels(torch.device("cpu"))
    assert "float32" in found["flash"] and "float32" in found["math"]
    assert not found.keys() & {"cudnn", "efficient"}


def test_what_is_cudas_alone_lies_in_one_place() -> None:
    """Wherever "cuda" stood for "an accelerator", Apple's and Intel's devices were shut out."""
    runtime = Path(accelerator.__file__).parent
    found = {str(path.relative_to(runtime)) for path in runtime.rglob("*.py") if "torch.cuda." in path.read_text()}
    assert found == {"accelerator.py", "knobs/loader.py"}
