"""Looking at a training costs a stated number of its steps, however long they take."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from autoaccel.records.messages import Profiled, TakeProfile
from autoaccel.runtime import looking
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.looking import take_and_gather
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.spending import Spending
from autoaccel.runtime.steps import make_steps
from autoaccel.runtime.training import Training
from autoaccel.runtime.warmup import warming_up

BATCH = 8
DATA = TensorDataset(torch.randn(1024, 4, generator=torch.Generator().manual_seed(0)), torch.zeros(1024).long())


class Slow(nn.Linear):
    """A model whose steps take as long as a clock that only it moves says."""

    def __init__(self, step_seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(4, 2)
        self.step_seconds = step_seconds
        self.steps = 0.0  # in batches of the usual size, an evaluation's counting a third
        self.ahead = 0.0
        real = time.perf_counter
        monkeypatch.setattr(time, "perf_counter", lambda: real() + self.ahead)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        steps = len(inputs) / BATCH * (1 if torch.is_grad_enabled() else 1 / 3)
        self.steps += steps
        self.ahead += steps * self.step_seconds
        return super().forward(inputs)


def ignore(found: Profiled) -> None:
    """Tell nobody."""


def look(
    monkeypatch: pytest.MonkeyPatch,
    step_seconds: float,
    task: TakeProfile | None = None,
    told: list[Profiled] | None = None,
    **changes: Any,
) -> tuple[Profiled, Slow]:
    model = Slow(step_seconds, monkeypatch)
    training = Training(
        **{
            "model": model,
            "train_data": DATA,
            "eval_data": DATA,
            "batch_size": BATCH,
            "epochs": 3,
            "loss": nn.CrossEntropyLoss(),
            "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
            "evaluate": "accuracy",
            **changes,
        }
    )
    monkeypatch.setattr(looking, "measure_rates", lambda *arguments: None)  # it makes no steps, and takes its seconds
    loop = Loop(training, Applied({"threads.intra_op": 1}), seed=0)
    step = make_steps(warming_up(loop, 2.0), loop.step).step_seconds[-1]
    task = task or TakeProfile(seconds=2.0, thorough=True, cores=1)
    tell = told.append if told is not None else ignore
    return take_and_gather(loop, task, step, tell), model


def test_steps_of_seconds_are_not_made_by_the_dozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advice on steps of 2.2 s took 122 s: a batch of 8 was compared with one of 64, and every look made steps."""
    found, model = look(monkeypatch, 2.2)
    assert model.steps <= 11
    assert found.profile.steps == 3
    assert found.profile.operators and found.profile.phases and found.conditions is not None
    assert found.profile.flops  # the roofline is worth a step
    assert "steps on larger batches" in found.profile.left_out


def test_the_slower_a_step_the_less_is_looked_at_but_never_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found, model = look(monkeypatch, 30.0)
    assert model.steps <= 6
    assert found.profile.steps == 1
    assert found.profile.operators and found.conditions is not None
    assert len(found.profile.left_out) >= 4


def test_nothing_is_left_out_where_steps_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = look(monkeypatch, 0.02, TakeProfile(seconds=2.0, thorough=True, cores=2))
    assert found.profile.left_out == ()
    conditions = found.conditions
    assert conditions is not None and conditions.larger_batch is not None and conditions.evaluation is not None
    assert found.profile.modules and "threads" in conditions.switched


def test_what_is_worth_more_is_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps under anomaly mode took five times as long: to know that is worth more than the times of modules."""
    with torch.autograd.set_detect_anomaly(True):
        found, model = look(monkeypatch, 1.0)
    assert found.conditions is not None and "anomaly" in found.conditions.switched
    assert model.steps <= 26


def test_what_was_spent_is_seen_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    spending = Spending(step_seconds=2.0, max_seconds=7.0)
    assert spending.affords("one", 2)
    now += 5.0  # it took longer than two steps
    assert not spending.affords("two", 2) and spending.affords("three", 1)
    assert not spending.affords("four", 0.5, seconds=1.5)
    assert spending.choose("five", (3.0, 1.0)) == 1.0
    assert spending.left_out == ["two", "four"]
    assert spending.affordable_steps == 1
    now += 9.0
    assert spending.affordable_steps == 0 and not spending.affords("six", seconds=0.1)


class Picky(Slow):
    """A model that asserts the size of its batches, as one with a state for each sample does."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        assert len(inputs) == BATCH, f"a batch must have {BATCH} samples"
        return super().forward(inputs)


def test_what_a_model_cannot_take_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """It joined small batches to see whether larger ones pay, and took the whole tune with it."""
    found, _ = look(monkeypatch, 0.02, model=Picky(0.02, monkeypatch))
    assert found.profile.failed == {"steps on larger batches": f"AssertionError: a batch must have {BATCH} samples"}
    assert found.conditions is not None and found.conditions.larger_batch is None
    assert found.profile.modules and found.profile.python  # what comes after it is measured all the same


def test_what_was_found_is_told_before_anything_that_may_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Profiled] = []
    monkeypatch.setattr(looking, "_WAITS", 2.0)  # on a busy machine it seems to wait for its data, which is looked at
    found, _ = look(monkeypatch, 0.02, told=told)
    assert [one.measuring for one in told][:2] == ["training conditions", "loading samples"]
    assert all(one.profile.operators for one in told)
    assert told[0].conditions is None and told[1].conditions is not None
    assert found.measuring == "" and found.profile.failed == {}
