"""The last part of a training: its loss, and its metric at several points, which change nothing."""

from __future__ import annotations

import statistics
from array import array
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from autoaccel.records.messages import Failure, Finished
from autoaccel.runtime import last_part
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.last_part import LastPart
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.steps import make_steps
from autoaccel.runtime.training import Training

INPUTS = torch.randn(80, 4, generator=torch.Generator().manual_seed(0))
DATA = TensorDataset(INPUTS, (INPUTS.sum(dim=1) > 0).long())
STEPS = 40  # 4 epochs of 10

CHEAP, DEAR = 100.0, 0.0  # what a step takes, beside which an evaluation is nothing, or too much


def loop_of(**changes: Any) -> Loop:
    torch.manual_seed(0)
    training = Training(
        **{
            "model": nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 2)),
            "train_data": DATA,
            "eval_data": DATA,
            "batch_size": 8,
            "epochs": 4,
            "loss": nn.CrossEntropyLoss(),
            "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.2),
            "evaluate": "accuracy",
            **changes,
        }
    )
    return Loop(training, Applied({}), seed=1)


def finished(loop: Loop, steps: int, step_seconds: float) -> Finished:
    found = make_steps(LastPart(loop, steps).training(step_seconds), loop.step)
    assert isinstance(found, Finished)
    return found


def history() -> tuple[list[float], list[float]]:
    """Return loss and metric after each step of a plain loop."""
    loop, losses, metrics = loop_of(), list[float](), list[float]()
    for _ in range(STEPS):
        loop.step()
        losses.append(loop.last_loss)
        metrics.append(loop.evaluate())
    return losses, metrics


def test_the_metric_is_the_mean_of_several_in_the_last_tenth() -> None:
    losses, metrics = history()
    found = finished(loop_of(), STEPS, CHEAP)
    assert found.points == 5
    assert found.metric == pytest.approx(statistics.fmean(metrics[step - 1] for step in (36, 37, 38, 39, 40)))
    assert found.last_metric == metrics[-1]
    assert found.loss == pytest.approx(statistics.fmean(losses[30:]), rel=1e-6)
    assert found.first_loss == pytest.approx(losses[0], rel=1e-6)
    scores = array("f", found.scores)
    assert len(scores) == 80
    assert statistics.fmean(scores) == pytest.approx(found.metric, rel=1e-6)


def test_where_an_evaluation_is_dear_only_the_end_counts() -> None:
    _, metrics = history()
    found = finished(loop_of(), STEPS, DEAR)
    assert (found.points, found.metric, found.last_metric) == (1, metrics[-1], metrics[-1])


def test_of_a_part_of_the_run_only_the_end_counts() -> None:
    losses, metrics = history()
    loop = loop_of()
    part = LastPart(loop, 20)
    assert part.starts_at == 20
    found = make_steps(part.training(CHEAP), loop.step)
    assert isinstance(found, Finished)
    assert (found.points, found.metric, loop.steps_done) == (1, metrics[19], 20)
    assert found.loss == pytest.approx(statistics.fmean(losses[15:20]), rel=1e-6)


def test_steps_that_were_made_in_turns_count() -> None:
    losses, _ = history()
    loop = loop_of()
    part = LastPart(loop, STEPS)
    assert part.starts_at == 36
    while loop.steps_done < part.starts_at:
        loop.step()
    found = make_steps(part.training(CHEAP), loop.step)
    assert isinstance(found, Finished)
    assert found.points == 5
    assert found.loss == pytest.approx(statistics.fmean(losses[30:]), rel=1e-6)


def test_of_many_samples_groups_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_part, "_MAX_SCORES", 16)
    found = finished(loop_of(), STEPS, CHEAP)
    scores = array("f", found.scores)
    assert len(scores) == 16
    assert statistics.fmean(scores) == pytest.approx(found.metric, rel=1e-6)


def test_a_metric_that_is_a_number_has_no_scores() -> None:
    assert finished(loop_of(evaluate=lambda model, loader: 0.5), STEPS, CHEAP).scores == b""


def test_what_diverges_is_a_failure() -> None:
    loop = loop_of(evaluate=lambda model, loader: float("nan"))
    found = make_steps(LastPart(loop, STEPS).training(CHEAP), loop.step)
    assert isinstance(found, Failure) and found.kind == "diverged"
