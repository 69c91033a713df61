"""Pruning: channels are really gone, the rest trains on, and the smaller model can be built again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from autoaccel.records.settings import Settings
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.knobs.effect import IneffectiveError
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.modules import Shadow, count_parameters
from autoaccel.runtime.training import Training

INPUTS = torch.randn(96, 3, 8, 8, generator=torch.Generator().manual_seed(0))
TARGETS = INPUTS.mean(dim=(1, 2, 3)).gt(0).long()
HALF: Settings = {"model.sparsity": 0.5}


def plain() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * 16, 20), nn.ReLU(), nn.Linear(20, 2),
    )  # fmt: skip


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.body = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.head = nn.Linear(16, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        return self.head((x + self.body(x)).mean(dim=(2, 3)))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(64, 3 * 64)
        self.network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
        self.head = nn.Linear(64, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.reshape(len(x), 3, 64)
        query, key, value = (part.reshape(len(x), 3, 4, 16).transpose(1, 2) for part in self.project(x).chunk(3, 2))
        x = nn.functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(len(x), 3, 64)
        return self.head(self.network(x).mean(dim=1))


def loop_of(make: Callable[[], nn.Module], settings: Settings, **changes: object) -> Loop:
    torch.manual_seed(1)
    data = TensorDataset(INPUTS, TARGETS)
    training = Training(
        **{  # type: ignore[arg-type]  # one keyword may be any of them
            "model": make(),
            "train_data": data,
            "eval_data": data,
            "batch_size": 24,
            "epochs": 3,
            "loss": nn.CrossEntropyLoss(),
            "optimizer": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
            "evaluate": "accuracy",
            **changes,
        }
    )
    return Loop(training, Applied(settings), seed=0)


@pytest.mark.parametrize("make", [plain, Residual, Attention])
def test_channels_are_gone_after_the_warm_up_and_the_rest_trains_on(make: Callable[[], nn.Module]) -> None:
    loop = loop_of(make, HALF)
    before = count_parameters(loop.plain_model)
    for _ in range(4):  # an epoch
        loop.step()
    assert count_parameters(loop.plain_model) == before
    loop.step()
    size = loop.model_size
    assert size is not None
    assert size.parameters == count_parameters(loop.plain_model) < 0.8 * before == 0.8 * size.baseline_parameters
    assert size.flops < size.baseline_flops
    held = {id(parameter) for group in loop.optimizer.param_groups for parameter in group["params"]}
    assert held == {id(parameter) for parameter in loop.plain_model.parameters()}
    first = loop.last_loss
    for _ in range(20):
        loop.step()
    assert loop.last_loss != first
    assert "parameters" in loop.applied.check()[0]["model.sparsity"]


def test_outputs_with_a_meaning_and_what_is_asked_for_keep_their_number() -> None:
    loop = loop_of(plain, HALF | {"model.pruning_keeps": "first and last", "model.pruning_warmup": 0})
    loop.step()
    assert isinstance(loop.plain_model, nn.Sequential)
    sizes = [tuple(layer.weight.shape) for layer in loop.plain_model if isinstance(layer, (nn.Conv2d, nn.Linear))]
    assert sizes == [(16, 3, 3, 3), (16, 16, 3, 3), (10, 256), (2, 10)]


def test_the_smaller_model_is_built_again_from_settings_and_weights() -> None:
    settings = HALF | {"model.pruning_warmup": 0, "model.norm_biases": "drop"}
    loop = loop_of(plain, settings)
    for _ in range(3):
        loop.step()
    state = loop.plain_model.state_dict()
    again = Applied(settings).restore(plain(), state).eval()
    assert [layer.out_channels for layer in again if isinstance(layer, nn.Conv2d)] == [8, 16]  # type: ignore[attr-defined]  # a sequence
    assert torch.equal(again(INPUTS), loop.plain_model.eval()(INPUTS))


def test_a_schedule_stands_where_it_stood() -> None:
    loop = loop_of(
        plain, HALF, scheduler=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    )
    for _ in range(5):
        loop.step()
    assert loop.model_size is not None
    assert loop.optimizer.param_groups[0]["lr"] == pytest.approx(0.5e-3)


def test_a_model_without_a_channel_to_spare_says_so() -> None:
    loop = loop_of(lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 2)), HALF | {"model.pruning_warmup": 0})
    with pytest.raises(IneffectiveError):
        loop.step()


def test_a_shadow_shares_weights_but_not_modules() -> None:
    model = plain()
    twin = Shadow(model).model
    assert [id(parameter) for parameter in twin.parameters()] == [id(parameter) for parameter in model.parameters()]
    twin.eval()
    assert all(module.training for module in model.modules())
    twin[0] = nn.Identity()  # type: ignore[index]  # a sequence
    assert isinstance(model[0], nn.Conv2d)  # type: ignore[index]  # a sequence
