"""What a profile says of steps whose costs are known."""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import EventList, FunctionEvent
from torch.utils.data import Dataset, TensorDataset

from autoaccel.records.profile import PHASES
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.phases import LEFT_OUT, PhaseTimer
from autoaccel.runtime.profiling import take_profile, users_functions
from autoaccel.runtime.steps import make_steps
from autoaccel.runtime.tracing import read_trace, tracing
from autoaccel.runtime.training import Training
from autoaccel.runtime.work import count_work, min_bytes, time_modules

DATA = TensorDataset(torch.randn(64, 8, generator=torch.Generator().manual_seed(0)), torch.zeros(64).long())
MakeLoop = Callable[..., Loop]


@pytest.fixture
def make_loop() -> MakeLoop:
    """Return a function that starts a loop on a tiny training, with changes."""

    def make(**changes: Any) -> Loop:
        training = Training(
            **{
                "model": nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)),
                "train_data": DATA,
                "eval_data": DATA,
                "batch_size": 16,
                "epochs": 3,
                "loss": nn.CrossEntropyLoss(),
                "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
                "evaluate": "accuracy",
                **changes,
            }
        )
        return Loop(training, Applied({"threads.intra_op": 1}), seed=0)

    return make


class Sleeping(Dataset[Any]):
    """Samples that take a while."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.002)
        return DATA[index]


class SleepingModel(nn.Linear):
    """A model that takes a while."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        time.sleep(0.02)
        return super().forward(inputs)


def test_phases_add_up_to_the_untraced_step_and_each_has_its_own_time(make_loop: MakeLoop) -> None:
    def loss(outputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        time.sleep(0.01)
        return nn.functional.cross_entropy(outputs, target)

    loop = make_loop(train_data=Sleeping(), model=SleepingModel(8, 2), loss=loss, batch_size=16)
    found, steps = take_profile(loop, 0.5)
    assert sum(found.phases.values()) == pytest.approx(1.0)
    assert found.phases.keys() == set(PHASES) - {"all-reduce"}
    # The same steps as a whole, their middle half; that this is near the median is a matter of how quiet a machine is.
    quarter = len(steps) // 4
    middle = sorted(step.seconds for step in steps)[quarter : len(steps) - quarter]
    assert found.phase_seconds == pytest.approx(statistics.fmean(middle), rel=0.03)
    seconds = {phase: share * found.phase_seconds for phase, share in found.phases.items()}
    assert seconds["data wait"] >= 16 * 0.002
    assert seconds["forward"] >= 0.02
    assert seconds["loss"] >= 0.01
    assert found.steps == len(steps)


def test_with_a_step_of_ones_own_the_loss_begins_where_the_model_ends(make_loop: MakeLoop) -> None:
    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        outputs = model(batch[0])
        time.sleep(0.01)
        return nn.functional.cross_entropy(outputs, batch[1])

    loop = make_loop(model=SleepingModel(8, 2), loss=None, step=step)
    found, _ = take_profile(loop, 0.2)
    assert found.phases["forward"] * found.phase_seconds >= 0.02
    assert found.phases["loss"] * found.phase_seconds >= 0.01
    assert not loop.model._forward_hooks and not loop.model._forward_pre_hooks


def test_operators_agree_with_the_profilers_own_table() -> None:
    inputs = torch.randn(256, 64)
    with torch.profiler.profile(record_shapes=True, profile_memory=True, acc_events=True) as recorded:
        for _ in range(2):
            torch.relu(inputs @ inputs.T).sum()
            torch.mm(inputs[:2], inputs.T)
    found = read_trace(recorded, 0.001, steps=2, on_gpu=False)
    own = {event.key: event.self_cpu_time_total / 1e6 for event in recorded.key_averages()}
    by_name = {operator.name: operator for operator in found.operators}
    for name, calls in {"aten::mm": 2, "aten::relu": 1, "aten::sum": 1}.items():
        assert by_name[name].self_seconds == pytest.approx(own[name] / 2)
        assert by_name[name].calls_per_step == calls
    products = [event for event in recorded.key_averages(group_by_input_shape=True) if event.key == "aten::mm"]
    longest = max(products, key=lambda event: event.self_cpu_time_total)  # a busy machine may hold up the small product
    assert by_name["aten::mm"].shapes == ", ".join("x".join(map(str, shape)) for shape in longest.input_shapes)
    assert {len(products), longest.count} == {2}
    assert [operator.share for operator in found.operators] == sorted(
        (operator.share for operator in found.operators), reverse=True
    )


def test_a_trace_is_written_and_says_where_memory_is_highest(make_loop: MakeLoop, tmp_path: Path) -> None:
    loop = make_loop()
    loop.step()
    found = make_steps(tracing(loop, 0.01, str(tmp_path / "trace.json")), loop.step)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(event.get("name") == "aten::addmm" for event in events)
    assert found.memory is not None
    assert found.memory.bytes_above_start > 0
    assert found.memory.phase in PHASES
    assert {operator.name: operator.calls_per_step for operator in found.operators}["aten::addmm"] == 2


@pytest.mark.parametrize(("max_seconds", "operators", "recorded"), [(60.0, 100, 1 + 1 + 3), (0.03, 5_000, 1)])
def test_a_step_of_very_many_operators_is_recorded_alone(
    make_loop: MakeLoop, monkeypatch: pytest.MonkeyPatch, max_seconds: float, operators: int, recorded: int
) -> None:
    made: list[bool] = []

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        made.append(gc.isenabled())
        counter = torch.zeros(1)
        for _ in range(operators):
            counter.neg_()
        return model(batch[0]).mean()

    loop = make_loop(loss=None, step=step)
    monkeypatch.setattr("autoaccel.runtime.tracing._MAX_SECONDS", max_seconds)
    found = make_steps(tracing(loop, 0.01), loop.step)
    assert made == [True] * recorded  # no step is made while garbage is not looked for
    assert gc.isenabled()
    assert {operator.name: operator.calls_per_step for operator in found.operators}["aten::neg_"] == operators


@pytest.mark.parametrize("step_seconds", [0.01, 1.5])
def test_recorded_operators_leave_python_no_garbage_to_look_for_in_later_steps(
    make_loop: MakeLoop, step_seconds: float
) -> None:
    loop = make_loop()
    gc.collect()
    gc.disable()
    try:
        make_steps(tracing(loop, step_seconds), loop.step)
        left = [one for one in gc.get_objects() if type(one) is FunctionEvent]
    finally:
        gc.enable()
    assert not left


def read_each(losses: torch.Tensor) -> float:
    return sum(loss.item() for loss in losses.detach())


def test_what_the_users_code_reads_is_counted_where_it_is_read(make_loop: MakeLoop) -> None:
    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        losses = nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")
        read_each(losses)
        return losses.mean()

    loop = make_loop(loss=None, step=step)
    found, _ = take_profile(loop, 0.05)
    assert found.reads_per_step == 16
    reading = next(function for function in users_functions(loop, found.step_seconds) if function.name == "read_each")
    assert reading.built_in_calls["Tensor.item"] == 16
    assert reading.where.startswith("test_profiling.py:")
    assert 0 < reading.line_share < 1


def test_what_loads_samples_is_not_counted_as_the_steps_own_code(make_loop: MakeLoop) -> None:
    found = users_functions(make_loop(train_data=Sleeping()), 0.05)
    assert not any("__getitem__" in function.name for function in found)


def test_another_profiler_is_left_alone(make_loop: MakeLoop) -> None:
    def watch(frame: Any, event: str, argument: Any) -> None:
        return

    sys.setprofile(watch)
    try:
        found = users_functions(make_loop(), 0.05)
        assert sys.getprofile() is watch
    finally:
        sys.setprofile(None)
    assert found == ()


def test_floating_point_operations_and_bytes_are_counted(make_loop: MakeLoop) -> None:
    loop = make_loop()
    loop.step()
    weights = [parameter.clone() for parameter in loop.plain_model.parameters()]
    flops, moved = count_work(loop, loop.next_batch())
    # 16 samples; forward and gradients of both weights, and that of the hidden layer's output.
    assert flops == {"matmul": 2 * 16 * (8 * 16 + 16 * 2) * 2 + 2 * 16 * 16 * 2}
    assert moved > 4 * 16 * (8 + 16 + 16 + 2)
    assert all(torch.equal(old, new) for old, new in zip(weights, loop.plain_model.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in loop.plain_model.parameters())
    numbers = 8 * 16 + 16 + 16 * 2 + 2
    assert min_bytes(loop, loop.next_batch()) == 6 * 4 * numbers + 16 * 8 * 4 + 16 * 8


def test_modules_are_timed_with_their_children_inside(make_loop: MakeLoop) -> None:
    model = nn.Sequential(nn.Sequential(SleepingModel(8, 16), nn.ReLU()), nn.Linear(16, 2))
    found = {module.name: module for module in time_modules(make_loop(model=model), 0.03)}
    assert list(found) == ["", "0", "0.0", "0.1", "1"]
    assert found["0.0"].kind == "SleepingModel"
    assert found[""].forward_seconds >= found["0"].forward_seconds >= found["0.0"].forward_seconds >= 0.02
    assert found["0"].own_seconds < 0.02
    assert not any(module._forward_hooks for module in model.modules())


def test_adding_up_gradients_is_a_phase_of_its_own_among_processes(make_loop: MakeLoop) -> None:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 2)))
        found, _ = take_profile(make_loop(model=model), 0.05)
    finally:
        torch.distributed.destroy_process_group()
    assert list(found.phases) == list(PHASES)
    assert 0 < found.phases["all-reduce"] < 1
    assert sum(found.phases.values()) == pytest.approx(1.0)


class Recorded:
    """A trace as torch.profiler leaves it of a GPU: three kernels of operators, one of a CUDA graph, a named range."""

    def __init__(self) -> None:
        def event(number: int, name: str, start: int, end: int, on: DeviceType, **more: Any) -> FunctionEvent:
            more = {"stack": [], "input_shapes": [], "use_device": "cuda", "device_type": on, **more}
            return FunctionEvent(number, name, 1, start, end, **more)

        linear = event(1, "aten::linear", 0, 50, DeviceType.CPU)
        product = event(2, "aten::addmm", 10, 40, DeviceType.CPU)
        relu = event(3, "aten::relu", 60, 80, DeviceType.CPU)
        named = event(4, "my forward", 0, 90, DeviceType.CPU, is_user_annotation=True)
        replay = event(5, "cudaGraphLaunch", 90, 95, DeviceType.CPU)
        kernels = [
            event(2, "ampere_sgemm_32x128_tn", 100, 400, DeviceType.CUDA),
            event(2, "ampere_sgemm_32x128_tn", 400, 700, DeviceType.CUDA),
            event(3, "vectorized_elementwise_kernel", 700, 800, DeviceType.CUDA),
            event(5, "triton_poi_fused_add_0", 900, 1000, DeviceType.CUDA),
        ]
        on_gpu = event(4, "my forward", 100, 1000, DeviceType.CUDA, is_user_annotation=True)
        for operator, launched in ((product, kernels[0]), (product, kernels[1]), (relu, kernels[2])):
            operator.append_kernel(launched.name, 0, launched.time_range.elapsed_us())
        everything = [named, linear, product, relu, replay, *kernels, on_gpu]
        self._events = EventList(everything, use_device="cuda")
        self._events._build_tree()
        self.profiler = SimpleNamespace(kineto_results=SimpleNamespace(events=list))

    def events(self) -> EventList:
        return self._events

    def key_averages(self, group_by_input_shape: bool = False) -> EventList:
        return self._events.key_averages(group_by_input_shapes=group_by_input_shape)


def test_on_a_gpu_each_kernel_counts_once() -> None:
    """A kernel is an event of its own and its operator's: shares of operators were half of what they are."""
    recorded = Recorded()
    found = read_trace(recorded, 0.001, steps=1, on_gpu=True)
    seconds = {operator.name: operator.self_seconds for operator in found.operators if operator.self_seconds}
    expected = {"aten::addmm": 600e-6, "aten::relu": 100e-6, "triton_poi_fused_add_0": 100e-6}
    assert seconds == pytest.approx(expected)
    assert sum(operator.share for operator in found.operators) == pytest.approx(1.0)
    assert "Self CUDA time total: 800.000us" in recorded.key_averages().table()  # the profiler's own sum


def test_a_range_that_somebody_has_named_does_not_keep_a_gpu_busy() -> None:
    """A user's record_function appears among the GPU's events as long as all that happened in it, gaps included."""
    found = read_trace(Recorded(), 0.001, steps=1, on_gpu=True).gpu
    assert found is not None
    assert found.busy_share == pytest.approx(800 / 900)
    assert found.kernels_per_step == 4


def test_what_belongs_to_no_step_is_in_none_of_its_phases() -> None:
    timer = PhaseTimer(torch.device("cpu"))
    timer.start_step()
    for phase in ("data wait", "forward", LEFT_OUT, "backward"):
        timer.phase_ended(phase)
    (phases,) = timer.step_phases
    assert phases["data wait"] == phases["forward"] == 0.0 < phases["backward"]
