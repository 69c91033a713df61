"""Another form of an optimizer's update is met by nobody besides the step: scalers, schedules, checkpoints."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from autoaccel.records.settings import Settings
from autoaccel.runtime.applied import Applied
from tests.runtime.test_optimizers import FORMS, INPUTS, KINDS, TARGETS, Clipping, network


@pytest.mark.parametrize("settings", [{}, {"optimizer.fused": True}])
def test_a_scaler_of_the_users_own_works_as_before(settings: Settings) -> None:
    """It left unscaling to the fused step, whose hooks clipped scaled gradients, and counted steps that it left out."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    norms: list[float] = []
    optimizer.register_step_pre_hook(lambda *_: norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 1.0))))
    Applied(settings).optimizer(optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**126)
    for _ in range(9):
        optimizer.zero_grad()
        scaler.scale(nn.functional.mse_loss(model(INPUTS), TARGETS)).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        scaler.step(optimizer)
        scaler.update()
    assert 0 < len(norms) < 9 and all(100 < norm < 1e5 for norm in norms)


@pytest.mark.parametrize("dampening", [0.0, 0.4])
def test_a_momentum_may_begin_later_than_others(dampening: float) -> None:
    """Of a part that joins in later, as one that is unfrozen: the fused kernel takes the momenta of all or none."""
    found = []
    for settings in ({}, {"optimizer.fused": True}):
        first, later = nn.Parameter(torch.linspace(-1, 1, 5)), nn.Parameter(torch.linspace(1, 2, 3))
        optimizer = torch.optim.SGD([first, later], lr=0.1, momentum=0.9, dampening=dampening, weight_decay=0.1)
        applied = Applied(settings)
        applied.optimizer(optimizer)
        for step in range(4):
            optimizer.zero_grad()
            (first.square().sum() + (later.square().sum() if step >= 2 else 0.0)).backward()
            optimizer.step()
        assert bool(applied.check()[1]) is bool(settings and dampening)
        found.append(torch.cat([first, later]).detach())
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_gradients_that_are_assigned_may_lie_in_any_format(kind: Any) -> None:
    """The fused kernel goes through weights and gradients side by side, as they lie in memory."""
    found = []
    for settings in ({}, {"optimizer.fused": True}):
        torch.manual_seed(0)
        weight = nn.Parameter(torch.randn(4, 3, 3, 3))
        optimizer = Applied(settings).optimizer(kind([weight], lr=0.01))
        for _ in range(3):
            (gradient,) = torch.autograd.grad(weight.pow(3).sum(), [weight])
            weight.grad = gradient.contiguous(memory_format=torch.channels_last)
            optimizer.step()
        weight.data = weight.data.contiguous(memory_format=torch.channels_last)
        for _ in range(2):
            (weight.grad,) = torch.autograd.grad(weight.pow(3).sum(), [weight])
            optimizer.step()
        found.append(weight.detach())
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("kind", ["own", "base"])
def test_groups_that_somebody_holds_on_to_stay_in_force(kind: str) -> None:
    """A schedule of the user's own that held a group set the rate of one that was no longer the optimizer's."""
    found = []
    for settings in ({}, {"optimizer.fused": True}):
        model = network()
        optimizer = Clipping(model, 1.0) if kind == "own" else torch.optim.AdamW(model.parameters(), lr=0.1)
        (group,) = optimizer.param_groups
        applied = Applied(settings)
        applied.optimizer(optimizer)
        for step in range(3):
            group["lr"] = 0.1 / (step + 1)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(INPUTS), TARGETS).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            optimizer.step()
        assert optimizer.param_groups[0] is group and not applied.check()[1]
        found.append(nn.utils.parameters_to_vector(model.parameters()).detach())
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("settings", FORMS)
def test_what_is_saved_says_nothing_of_another_form(settings: Settings) -> None:
    """Loaded without the recipe, it made plain Python update in that form."""
    states = []
    for each in ({}, settings):
        model = network()
        groups = [{"params": layer.parameters(), "foreach": None} for layer in (model[0], model[2])]  # type: ignore[index]  # to mypy it may be a tensor
        optimizer = torch.optim.Adam([{**groups[0], "fused": True}, groups[1]])
        Applied(each).optimizer(optimizer)
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
        model(INPUTS).sum().backward()
        optimizer.step()
        states.append(optimizer.state_dict())
        optimizer.load_state_dict(states[-1])
        optimizer.step()
        assert optimizer.state_dict()["param_groups"] == states[0]["param_groups"]
    assert states[0]["param_groups"] == states[1]["param_groups"]
    assert states[0]["state"].keys() == states[1]["state"].keys()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own
def test_a_compiled_update_saves_rates_as_numbers_and_loads_them_as_tensors() -> None:
    """From a checkpoint of plain Python it compiled anew with each change of the rate; its own said tensors."""
    model = network()
    optimizer = Applied({"compile.optimizer": True}).optimizer(torch.optim.Adam(model.parameters(), lr=0.5))
    schedule = KINDS.StepLR(optimizer, 1)
    saved = optimizer.state_dict()
    assert saved["param_groups"][0]["lr"] == 0.5 and type(saved["param_groups"][0]["lr"]) is float
    assert type(saved["param_groups"][0]["initial_lr"]) is float
    optimizer.load_state_dict(torch.optim.Adam(network().parameters(), lr=0.25).state_dict())
    assert isinstance(optimizer.param_groups[0]["lr"], torch.Tensor) and optimizer.param_groups[0]["lr"] == 0.25
    assert schedule.optimizer is optimizer
