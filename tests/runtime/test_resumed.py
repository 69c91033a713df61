"""Trainings that resume from a checkpoint with settings or without, in every order: the same as without settings."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import TensorDataset

from autoaccel.records.settings import Settings
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.checkpoints import Checkpoints
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.randomness import seed_all
from autoaccel.runtime.training import Training

FUSED: Settings = {"layout.channels_last": True, "optimizer.fused": True}
FOREACH: Settings = {"layout.channels_last": True, "optimizer.foreach": "on"}
KINDS: dict[str, Any] = {
    "Adam": partial(torch.optim.Adam, lr=0.01, amsgrad=True),
    "AdamW": partial(torch.optim.AdamW, lr=0.01),
    "SGD": partial(torch.optim.SGD, lr=0.05, momentum=0.9),
    "Adagrad": partial(torch.optim.Adagrad, lr=0.02),
    "NAdam": partial(torch.optim.NAdam, lr=0.01),
}
ORDERS = [
    *("-".join(order) for order in itertools.permutations(["model", "optimizer", "load"])),
    "model-optimizer-steps-load",
    "model-optimizer-load-average",
]
IMAGES = torch.randn(40, 3, 7, 7, generator=torch.Generator().manual_seed(0))
LABELS = torch.randint(0, 4, (40,), generator=torch.Generator().manual_seed(1))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Let steps of a few microseconds not wait for threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.GELU(), nn.Conv2d(6, 5, 3), nn.GELU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(20, 4),
    )  # fmt: skip


class Own:
    """A loop of the user's own, with a moving average of its weights."""

    def __init__(self, kind: str, settings: Settings) -> None:
        self.applied = Applied(settings)
        self.model = self.called = network()
        self.optimizer = KINDS[kind](self.model.parameters())
        self.average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(0.7))

    def steps(self, first: int, last: int) -> list[float]:
        return [self.step(number) for number in range(first, last)]

    def step(self, number: int) -> float:
        chosen = slice(8 * (number % 5), 8 * (number % 5) + 8)
        inputs, labels = self.applied.batch((IMAGES[chosen], LABELS[chosen]))
        with self.applied.forward():
            loss = nn.functional.cross_entropy(self.called(inputs), labels)
        self.applied.backward(loss)
        self.applied.step(self.optimizer)
        self.average.update_parameters(self.model)
        return loss.item()

    def saved(self) -> dict[str, Any]:
        parts = {"model": self.model, "optimizer": self.optimizer, "average": self.average}
        return copy.deepcopy({name: part.state_dict() for name, part in parts.items()})

    def do(self, what: str, saved: dict[str, Any]) -> None:
        if what == "model":
            self.called = self.applied.model(self.model)
        elif what == "optimizer":
            self.optimizer = self.applied.optimizer(self.optimizer)
        elif what == "steps":
            self.steps(0, 3)
        elif what == "average":
            self.average = AveragedModel(self.called, multi_avg_fn=get_ema_multi_avg_fn(0.7))
            self.average.load_state_dict(saved["average"])
        else:
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.average.load_state_dict(saved["average"])


@pytest.mark.parametrize("settings", [FUSED, pytest.param(FOREACH, marks=pytest.mark.long)], ids=["fused", "foreach"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_of_ones_own_resumes_in_any_order(kind: str, settings: Settings) -> None:
    plain = Own(kind, {})
    plain.steps(0, 4)
    of_plain = plain.saved()
    expected, average = plain.steps(4, 8), plain.saved()["average"]
    first = Own(kind, settings)
    for what in ("model", "optimizer"):
        first.do(what, {})
    first.steps(0, 4)
    of_first = first.saved()
    assert of_first["optimizer"]["param_groups"] == of_plain["optimizer"]["param_groups"]

    for order, saved, of in itertools.product(ORDERS, (of_plain, of_first), (settings, {})):
        resumed = Own(kind, of)
        for what in order.split("-"):
            resumed.do(what, copy.deepcopy(saved))  # an optimizer trains on what it has loaded
        assert resumed.steps(4, 8) == pytest.approx(expected, rel=2e-4), (order, of)
        for name, value in resumed.saved()["average"].items():
            torch.testing.assert_close(value, average[name], rtol=2e-3, atol=1e-4)
        if of and (kind, of) != ("NAdam", FUSED):  # it has no fused form
            assert not resumed.applied.check()[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_resumes_with_a_recipe_or_without(kind: str, tmp_path: Path) -> None:
    def loop(settings: Settings, resumed: Any = None) -> Loop:
        seed_all(5)
        data = TensorDataset(IMAGES, LABELS)
        training = Training(
            model=network(), train_data=data, eval_data=data, batch_size=8, epochs=2, loss=nn.CrossEntropyLoss(),
            optimizer=KINDS[kind], evaluate="accuracy",
        )  # fmt: skip
        return Loop(training, Applied(settings), seed=3, resumed=resumed)

    def losses(loop: Loop, until: int, checkpoints: Checkpoints | None = None) -> list[float]:
        found = []
        while loop.steps_done < until:
            loop.step()
            found.append(loop.last_loss)
        if checkpoints is not None:
            checkpoints.keep(loop)
        return found

    form = FUSED if kind != "NAdam" else FOREACH
    expected = losses(loop({}), 9)[4:]
    for before, after in itertools.product(({}, form), repeat=2):
        checkpoints = Checkpoints(tmp_path / "checkpoint", 0.0, seed=3)
        losses(loop(before), 4, checkpoints)
        resumed = loop(after, checkpoints.load())
        assert losses(resumed, 9) == pytest.approx(expected, rel=5e-4), (before, after)
        assert not resumed.applied.check()[1]
