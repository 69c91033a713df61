"""Settings that change between two steps: what they do, and that they leave nothing behind."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from autoaccel.records.settings import Settings
from autoaccel.runtime.knobs import found_settings
from autoaccel.runtime.script.switched import SwitchedSettings
from autoaccel.space.knobs import KNOBS

from .samples import own_settings


@pytest.fixture(autouse=True)
def own_process() -> Iterator[None]:
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    torch.set_flush_denormal(False)


def parts() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> float:
    chance = torch.Generator().manual_seed(number)
    loss = functional.cross_entropy(model(torch.randn(4, 3, 8, 8, generator=chance)), torch.arange(4))
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    optimizer.step()
    return loss.item()


CHANGES: list[Settings] = [
    {"threads.intra_op": 1},
    {"memory.keep_freed": True},
    {"layout.channels_last": True},
    {"optimizer.fused": True},
    {"optimizer.foreach": "off"},
    {"precision.autocast": "bfloat16"},
    {"precision.flush_denormals": True},
    {"precision.float32_matmul": "medium"},
    {"optimizer.fused": True, "layout.channels_last": True, "precision.autocast": "bfloat16"},
]


def state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return what a switch might leave behind: groups, hooks, attributes, strides, the process."""
    hooks = {name: len(value) for name, value in vars(optimizer).items() if name.endswith("_hooks")}
    return {
        "groups": [{name: group[name] for name in group if name != "params"} for group in optimizer.param_groups],
        "defaults": dict(optimizer.defaults),
        "hooks": hooks,
        "attributes": sorted(name for name in vars(optimizer)),
        "strides": [parameter.stride() for parameter in model.parameters()],
        "model hooks": [len(module._forward_pre_hooks) for module in model.modules()],
        "process": found_settings(torch.device("cpu")),
        "saved": sorted(map(str, optimizer.state_dict()["param_groups"][0].items())),
    }


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: ", ".join(change))
def test_what_was_taken_back_leaves_nothing_behind(change: Settings) -> None:
    own, (model, optimizer) = own_settings(), parts()
    plain_model = copy.deepcopy(model)
    plain_optimizer = torch.optim.AdamW(plain_model.parameters(), lr=1e-2)
    switched = SwitchedSettings(own, "cpu")
    switched.equip_model(model)
    switched.equip_optimizer(optimizer)
    for number in range(2):
        assert step(model, optimizer, number) == step(plain_model, plain_optimizer, number)
    before = state(model, optimizer)
    switched.switch({**own, **change})
    switched.switch(own)
    assert state(model, optimizer) == before
    for number in range(2, 5):
        assert step(model, optimizer, number) == step(plain_model, plain_optimizer, number)


@pytest.mark.parametrize(
    "change",
    [change for change in CHANGES if "precision.float32_matmul" not in change],  # which needs units that few have
    ids=lambda change: ", ".join(change),
)
def test_steps_under_other_settings_go_on_from_those_before(change: Settings) -> None:
    own, (model, optimizer) = own_settings(), parts()
    switched = SwitchedSettings(own, "cpu")
    switched.equip_model(model)
    switched.equip_optimizer(optimizer)
    losses = [step(model, optimizer, 0)]
    for number in range(1, 13):
        switched.switch({**own, **change} if number % 3 else own)
        losses.append(step(model, optimizer, number % 2))
    assert losses[-1] < losses[0]
    switched.switch({**own, **change})
    step(model, optimizer, 0)
    _, ineffective = switched.check()
    assert not ineffective


def test_a_setting_that_needs_a_new_process_is_refused() -> None:
    own = own_settings()
    assert "threads.omp_wait_policy" in KNOBS
    with pytest.raises(ValueError, match="can only be set when a process starts"):
        SwitchedSettings(own, "cpu").switch({**own, "threads.omp_wait_policy": "ACTIVE"})
