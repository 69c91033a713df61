"""Losses with state, however a training reaches them, are on its device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from autoaccel.runtime.applied import Applied
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.reached import reached_modules
from autoaccel.runtime.training import Training


def weighted() -> nn.CrossEntropyLoss:
    return nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.0]))


GLOBAL = weighted()


def step_with_a_global(model: nn.Module, batch: Any) -> torch.Tensor:
    return helper(model(batch[0]), batch[1])


def helper(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return GLOBAL(outputs, targets)  # type: ignore[no-any-return]  # torch leaves it untyped


def step_with_a_loss(model: nn.Module, batch: Any, loss: nn.Module) -> torch.Tensor:
    return loss(model(batch[0]), batch[1])  # type: ignore[no-any-return]  # torch leaves it untyped


class Trainer:
    """Holds its loss, as the trainers of many code bases do."""

    def __init__(self, loss: nn.Module) -> None:
        self.loss = loss
        self.name = "a trainer"

    def step(self, model: nn.Module, batch: Any) -> torch.Tensor:
        return step_with_a_loss(model, batch, self.loss)

    __call__ = step


def around(loss: nn.Module) -> Callable[..., torch.Tensor]:
    return lambda model, batch: step_with_a_loss(model, batch, loss)


REACHED: list[tuple[str, Callable[[nn.Module], dict[str, Any]]]] = [
    ("the loss itself", lambda loss: {"loss": loss}),
    ("a partial", lambda loss: {"step": functools.partial(step_with_a_loss, loss=loss)}),
    ("a method", lambda loss: {"step": Trainer(loss).step}),
    ("an object that is called", lambda loss: {"step": Trainer(loss)}),
    ("a name from around", lambda loss: {"step": around(loss)}),
    ("a partial of a method", lambda loss: {"step": functools.partial(Trainer(loss).step)}),
    ("its forward", lambda loss: {"loss": loss.forward}),
    ("evaluation", lambda loss: {"loss": nn.functional.cross_entropy, "evaluate": functools.partial(max, loss)}),
]


@pytest.mark.parametrize(("way", "given"), REACHED, ids=[way for way, _ in REACHED])
def test_a_loss_with_state_is_on_the_device(way: str, given: Callable[[nn.Module], dict[str, Any]]) -> None:
    """Its class weights stayed on the CPU, and the first step failed on every GPU."""
    loss = weighted()
    data = TensorDataset(torch.ones(8, 4), torch.zeros(8, dtype=torch.long))
    training = Training(
        **{
            "model": nn.Linear(4, 2),
            "train_data": data,
            "eval_data": data,
            "batch_size": 4,
            "epochs": 1,
            "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
            "evaluate": "accuracy",
            **given(loss),
        }
    )
    Loop(training, Applied({}, "meta"), seed=0)
    assert loss.weight.is_meta


def test_globals_of_the_same_file_are_followed_and_nothing_else() -> None:
    assert reached_modules([step_with_a_global]) == [GLOBAL]
    assert reached_modules([nn.functional.cross_entropy, None]) == []
