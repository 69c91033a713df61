"""What is found out about a training beside its profile."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from autoaccel.records.conditions import TrainingConditions
from autoaccel.records.messages import Profiled, TakeProfile
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.conditions import gather_conditions
from autoaccel.runtime.evaluating import measure_evaluation
from autoaccel.runtime.looking import take_and_gather
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.rates import measure_rates
from autoaccel.runtime.samples import measure_samples
from autoaccel.runtime.switching import (
    larger_batch_factors,
    measure_alone,
    measure_larger_batch,
    without_anomaly_mode,
    without_deterministic_algorithms,
)
from autoaccel.runtime.training import Training

DATA = TensorDataset(torch.randn(64, 8, generator=torch.Generator().manual_seed(0)), torch.zeros(64).long())


def start(**changes: Any) -> Loop:
    training = Training(
        **{
            "model": nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 2)),
            "train_data": DATA,
            "eval_data": DATA,
            "batch_size": 16,
            "epochs": 3,
            "loss": nn.CrossEntropyLoss(),
            "optimizer": lambda parameters: torch.optim.Adam(parameters, foreach=True),
            "evaluate": "accuracy",
            **changes,
        }
    )
    loop = Loop(training, Applied({"threads.intra_op": 1}), seed=0)
    loop.step()
    return loop


def looked_at(loop: Loop) -> TrainingConditions:
    """Return the conditions with all that is measured beside them."""
    told: list[Profiled] = []
    found = take_and_gather(loop, TakeProfile(seconds=0.2), 0.01, told.append).conditions
    assert found is not None
    return found


def test_a_plain_training_has_plain_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_CHECK_", "3")
    found = gather_conditions(start())
    assert found.environment == {"MALLOC_CHECK_": "3"}
    assert (found.anomaly_mode, found.deterministic, found.autocast, found.gradients) == (False, False, False, True)
    assert (found.batch_samples, found.batch_bytes) == (16, 16 * 8 * 4 + 16 * 8)
    assert found.batch_dtypes == ("float32", "int64")
    assert found.model.dtypes == {"float32": 1.0}
    assert found.model.parameter_tensors == 4
    # 8 x 12 and 12 x 2 of 134: neither 12 nor 2 is a multiple of 8.
    assert found.model.odd_share == pytest.approx(120 / 134)
    assert found.optimizer.kind == "Adam" and found.optimizer.foreach and not found.optimizer.fused
    assert found.loader is not None and found.loader.workers == 0
    everything = looked_at(start())
    assert everything.switched == {} and everything.larger_batch is None
    assert everything.samples is not None and everything.evaluation is not None


def test_anomaly_mode_is_seen_although_only_the_step_switches_it_on() -> None:
    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        with torch.autograd.set_detect_anomaly(True):
            return nn.functional.cross_entropy(model(batch[0]), batch[1])

    found = looked_at(start(loss=None, step=step))
    assert found.anomaly_mode
    assert found.switched.keys() == {"anomaly"}
    assert found.switched["anomaly"].without_seconds > 0
    assert not torch.is_anomaly_enabled()


def test_anomaly_mode_stays_off_while_it_is_to_be() -> None:
    with torch.autograd.set_detect_anomaly(True):
        with without_anomaly_mode():
            torch.autograd.set_detect_anomaly(True)
            assert not torch.is_anomaly_enabled()
        assert torch.is_anomaly_enabled()


def test_deterministic_algorithms_are_switched_off_and_on_again() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        found = looked_at(start())
        assert found.deterministic
        assert "deterministic" in found.switched
        assert torch.are_deterministic_algorithms_enabled()
        with without_deterministic_algorithms():
            assert not torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_profiler_that_is_on_is_named_and_stays_on() -> None:
    def watch(frame: Any, event: str, argument: Any) -> None:
        return

    sys.setprofile(watch)
    try:
        found = looked_at(start())
        assert sys.getprofile() is watch
    finally:
        sys.setprofile(None)
    assert found.profilers == ("sys.setprofile",)
    assert "profilers" in found.switched


def test_denormal_parameters_are_counted() -> None:
    model = nn.Linear(8, 2, bias=False)
    nn.init.constant_(model.weight, 1e-40)
    found = gather_conditions(start(model=model, optimizer=lambda p: torch.optim.SGD(p, lr=0.0)))
    assert found.model.denormal_share > 0.4


class Slow(Dataset[Any]):
    """Samples whose cost is known: most of it is asleep, or in one function."""

    def __init__(self, sleeps: bool) -> None:
        self.sleeps = sleeps

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> Any:
        if self.sleeps:
            time.sleep(0.002)
        else:
            distort(index)
        return DATA[index]


def distort(index: int) -> int:
    return sum(number * number for number in range(20_000))


def test_a_sleeping_sample_is_told_from_a_busy_one() -> None:
    asleep = measure_samples(DataLoader(Slow(sleeps=True), batch_size=8), 0.2)
    assert asleep is not None
    assert asleep.seconds >= 0.002
    assert asleep.parts[0].name.startswith("time.sleep in Slow.__getitem__" if sys.version_info >= (3, 11) else "time")
    busy = measure_samples(DataLoader(Slow(sleeps=False), batch_size=8), 0.2)
    assert busy is not None
    # Beside neighbours both wait for a core, which counts as busy; what is left is the two milliseconds of sleep.
    assert asleep.seconds - asleep.busy_seconds > 0.0015
    assert busy.seconds - busy.busy_seconds < 0.001
    assert "distort" in busy.parts[0].name or "genexpr" in busy.parts[0].name
    assert busy.parts[0].share > 0.5
    assert busy.collate_seconds is not None and busy.handover_seconds is not None


class Compose:
    """Transforms, one after the other, as torchvision's Compose holds them."""

    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, sample: Any) -> Any:
        for transform in self.transforms:
            sample = transform(sample)
        return sample


class Blur:
    """A slow transform."""

    def __call__(self, sample: Any) -> Any:
        time.sleep(0.002)
        return sample


class Flip:
    """A quick one."""

    def __call__(self, sample: Any) -> Any:
        return sample


class Transformed(Dataset[Any]):
    """A dataset with transforms."""

    def __init__(self) -> None:
        self.transform = Compose([Flip(), Blur()])

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        return self.transform(DATA[index][0])


def test_the_slowest_transform_of_a_compose_is_named_and_all_are_put_back() -> None:
    data = Transformed()
    found = measure_samples(DataLoader(Subset(data, range(8)), batch_size=4), 0.2)
    assert found is not None
    assert found.parts[0].name == "Blur"
    assert [type(transform) for transform in data.transform.transforms] == [Flip, Blur]


@pytest.mark.parametrize("switch_on", [lambda: torch.enable_grad(), lambda: torch.set_grad_enabled(True)])
def test_evaluation_with_gradients_is_told_and_measured_without(switch_on: Any) -> None:
    recorded: list[bool] = []

    def error(model: nn.Module, loader: Any) -> float:
        with switch_on():
            losses = [nn.functional.cross_entropy(model(x), y) for x, y in loader]
        recorded.append(losses[0].requires_grad)
        return sum(float(loss.detach()) for loss in losses)

    found = measure_evaluation(start(evaluate=error, direction="minimize"), 0.2)
    assert found is not None
    assert found.has_gradients
    assert found.seconds_without_gradients is not None
    assert recorded[:3] == [True, True, False]  # to warm up, as it is, without
    assert torch.is_grad_enabled()
    plain = measure_evaluation(start(), 0.2)
    assert plain is not None
    assert not plain.has_gradients
    assert plain.batches == 4
    assert plain.seconds > 0


def test_a_metric_that_needs_all_data_gives_no_evaluation() -> None:
    def picky(model: nn.Module, loader: Any) -> float:
        if sum(len(target) for _, target in loader) < 64:
            raise ValueError("not all")
        return 1.0

    assert measure_evaluation(start(evaluate=picky, direction="maximize"), 0.0) is None


def test_small_batches_are_compared_with_larger_ones() -> None:
    found = measure_larger_batch(start(batch_size=2), 32, 0.1)
    assert found.factor == 32
    assert found.step_seconds > 0 and found.larger_seconds > 0
    assert list(larger_batch_factors(2).values()) == [32, 8, 4, 2]
    assert list(larger_batch_factors(2)) == sorted(
        larger_batch_factors(2), reverse=True
    )  # dear ones first: they tell more
    assert larger_batch_factors(16) == {}


def test_a_step_on_a_batch_that_is_there_waits_for_none_and_steps_as_a_whole() -> None:
    in_two_parts = Applied({"threads.intra_op": 1, "optimizer.accumulation": 2})
    loop = Loop(start(train_data=Slow(sleeps=True)).training, in_two_parts, seed=0)
    step = loop.step()
    steps, samples = loop.steps_done, loop.samples_done
    found = measure_alone(loop, loop.next_batch(), 0.1)
    assert loop.samples_done - samples == 16 * (loop.steps_done - steps) > 0  # both parts of each
    assert 0 < found.min_seconds <= found.step_seconds
    assert found.min_seconds < step.seconds - 16 * 0.002 / 2  # it slept for each of its samples


def test_rates_are_measured_within_seconds() -> None:
    found = measure_rates(torch.device("cpu"), cpu_cache_bytes=1 << 20)
    assert found.matmul.keys() >= {"float32", "float64"}
    assert found.convolution["float32"] > 1e6
    assert found.memory_bytes_per_second > 1e6
    assert found.array_bytes >= 4 << 20
    assert found.all_reduce_bytes_per_second is None
