"""Optimizers under settings: they stay the user's own, and gradients are clipped once, whole and unscaled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from autoaccel.errors import BadRequestError
from autoaccel.records.settings import Settings
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.clipping import Clip
from autoaccel.runtime.knobs.effect import IneffectiveError
from autoaccel.runtime.knobs.forms import has_form
from autoaccel.runtime.loading import describe
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.training import Training

INPUTS = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
TARGETS = 40 * INPUTS.sum(dim=1, keepdim=True)
FORMS: list[Settings] = [{"optimizer.fused": True}, {"optimizer.foreach": "on"}, {"optimizer.foreach": "off"}]
FLOAT16: Settings = {"precision.autocast": "float16"}


class Clipping(torch.optim.AdamW):
    """A constructor of its own kind, a step that clips, and an attribute."""

    def __init__(self, model: nn.Module, limit: float) -> None:
        self.limit = limit
        self.norms: list[float] = []
        super().__init__(model.parameters(), lr=0.1)

    def step(self, closure: Any = None) -> Any:
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        self.norms.append(float(nn.utils.clip_grad_norm_(parameters, self.limit)))
        return super().step(closure)


class WithOwnStep(torch.optim.SGD):
    """A step that makes no use of torch's."""

    def step(self, closure: Any = None) -> None:
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter -= group["lr"] * parameter.grad


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 1))


def training(**changes: Any) -> Training:
    data = TensorDataset(INPUTS, TARGETS)
    defaults = {
        "model": network(), "train_data": data, "eval_data": data, "batch_size": 16, "epochs": 2,
        "loss": nn.MSELoss(), "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=1e-3), "evaluate": "mse",
        "shuffle": False,
    }  # fmt: skip
    return Training(**{**defaults, **changes})


def weights_after(settings: Settings, steps: int = 6, **changes: Any) -> torch.Tensor:
    loop = Loop(training(**changes), Applied(settings), seed=0)
    for _ in range(steps):
        loop.step()
    assert not loop.applied.check()[1]
    return nn.utils.parameters_to_vector(loop.plain_model.parameters()).detach()


def weights_by_hand(prepare: Callable[[nn.Module], None], steps: int = 6, rate: float = 1e-3) -> torch.Tensor:
    """Plain SGD on the same batches, with something done to the gradients before each step."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for step in range(steps):
        part = slice(16 * (step % 4), 16 * (step % 4) + 16)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(INPUTS[part]), TARGETS[part]).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        prepare(model)
        optimizer.step()
    return nn.utils.parameters_to_vector(model.parameters()).detach()


@pytest.mark.parametrize("settings", FORMS)
def test_another_form_leaves_the_optimizer_itself(settings: Settings) -> None:
    """Rebuilt by its constructor it lost hooks, state and attributes, and what a scheduler held was another one."""
    model = network()
    optimizer = torch.optim.Adam([{"params": model[0].parameters(), "lr": 0.5, "name": "first"},  # type: ignore[index]  # to mypy it may be a tensor
                                  {"params": model[2].parameters()}], lr=0.1)  # type: ignore[index]  # fmt: skip
    called: list[str] = []
    optimizer.register_step_pre_hook(lambda *_: called.append("before"))
    optimizer.register_step_post_hook(lambda *_: called.append("after"))
    optimizer.register_state_dict_post_hook(lambda optimizer, state: called.append("state"))
    optimizer.mine = "kept"  # type: ignore[attr-defined]  # its own, which torch's has not
    model(INPUTS).sum().backward()
    optimizer.step()
    momenta = [optimizer.state[parameter]["exp_avg"] for parameter in model.parameters()]
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    called.clear()

    applied = Applied(settings)
    assert applied.optimizer(optimizer) is optimizer
    assert scheduler.optimizer is optimizer
    assert [group.get("name") for group in optimizer.param_groups] == ["first", None]
    assert [optimizer.state[parameter]["exp_avg"] is momentum for parameter, momentum in
            zip(model.parameters(), momenta, strict=True)] == [True] * 4  # fmt: skip
    optimizer.step()
    optimizer.state_dict()
    assert called == ["before", "after", "state"]
    assert optimizer.mine == "kept"  # type: ignore[attr-defined]  # its own, which torch's has not
    assert not applied.check()[1]


@pytest.mark.parametrize("settings", FORMS)
def test_a_subclass_keeps_its_constructor_and_its_step(settings: Settings) -> None:
    """Its constructor takes other arguments, so that it could not be called again; its step still clips."""
    found = []
    for each in ({}, settings):
        model = network()
        own = Clipping(model, limit=0.01)
        applied = Applied(each)
        assert applied.optimizer(own) is own
        for _ in range(3):
            applied.backward(nn.functional.mse_loss(model(INPUTS), TARGETS))
            applied.step(own)
        assert not applied.check()[1]
        assert all(norm > 1 for norm in own.norms)
        found.append(nn.utils.parameters_to_vector(model.parameters()).detach())
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("settings", FORMS)
def test_a_step_that_asks_for_no_form_is_told(settings: Settings) -> None:
    """Its groups say fused, but nothing reads them: the setting did nothing and counted as tried."""
    model = network()
    applied = Applied(settings)
    optimizer = applied.optimizer(WithOwnStep(model.parameters(), lr=0.1))
    applied.backward(model(INPUTS).sum())
    applied.step(optimizer)
    assert "WithOwnStep has its own step" in next(iter(applied.check()[1].values()))


def test_hooks_of_a_subclass_run_once() -> None:
    """An object of torch's class, made to see how it is made, had the hooks of every subclass run twice a step."""

    class Mine(torch.optim.NAdam):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    optimizer = Applied({"optimizer.foreach": "on"}).optimizer(Mine([nn.Parameter(torch.zeros(1))]))
    called: list[int] = []
    optimizer.register_step_pre_hook(lambda *_: called.append(1))
    optimizer.step()
    assert called == [1]


def test_what_is_no_optimizer_of_torch_has_no_forms() -> None:
    """Where its own constructor decides on the form, a switched group would change nothing, or half."""

    class Foreign(torch.optim.Optimizer):
        def __init__(self, parameters: Any, fused: bool = False) -> None:
            super().__init__(parameters, {"lr": 0.1, "fused": fused})

    parameters = [nn.Parameter(torch.zeros(1))]
    assert not has_form(Foreign(parameters), "fused")
    assert not has_form(torch.optim.Adam(parameters, differentiable=True), "fused")
    assert has_form(Clipping(network(), 1.0), "fused")


def test_what_the_constructor_decides_is_switched_too() -> None:
    """A fused optimizer tells our gradient scaler that it skips infinite gradients itself."""
    for kind in (torch.optim.SGD, torch.optim.Adam):
        fused = kind([nn.Parameter(torch.zeros(1))], fused=True)
        switched = Applied(FLOAT16 | {"optimizer.fused": True}).optimizer(kind([nn.Parameter(torch.zeros(1))]))
        assert vars(switched).keys() == vars(fused).keys()
        back = Applied({"optimizer.foreach": "off"}).optimizer(fused)
        assert vars(back).keys() == vars(kind([nn.Parameter(torch.zeros(1))])).keys()


@pytest.mark.parametrize("clip", [Clip(norm=0.5), Clip(value=0.05)])
@pytest.mark.parametrize("settings", [{}, {"optimizer.accumulation": 4}, {"optimizer.fused": True}])
def test_gradients_are_clipped_once_a_step_and_whole(clip: Clip, settings: Settings) -> None:
    """Clipped part by part, a step of four parts went in another direction."""
    by_hand = weights_by_hand(lambda model: clip.apply(model.parameters()))
    torch.testing.assert_close(weights_after(settings, clip=clip), by_hand)
    assert not torch.allclose(by_hand, weights_by_hand(lambda model: None), atol=1e-3)


@pytest.mark.parametrize("settings", [FLOAT16, FLOAT16 | {"optimizer.fused": True}])
def test_float16_clips_unscaled_gradients(settings: Settings) -> None:
    """Scaled by 65,536 every gradient was clipped, to next to nothing once it was unscaled."""
    clip = Clip(norm=0.5)
    by_hand = weights_by_hand(lambda model: clip.apply(model.parameters()))
    torch.testing.assert_close(weights_after(settings, clip=clip), by_hand, rtol=0.01, atol=0.002)


@pytest.mark.parametrize("settings", [FLOAT16, FLOAT16 | {"optimizer.fused": True}])
def test_under_float16_hooks_of_the_optimizer_see_unscaled_gradients(settings: Settings) -> None:
    """The scaler leaves unscaling to a fused step, whose hooks clipped scaled gradients."""

    def clip(optimizer: Any, *_: Any) -> None:
        nn.utils.clip_grad_norm_([one for group in optimizer.param_groups for one in group["params"]], 0.5)

    def hooked(parameters: Any) -> torch.optim.Optimizer:
        optimizer = torch.optim.SGD(parameters, lr=1e-3)
        optimizer.register_step_pre_hook(clip)
        return optimizer

    by_hand = weights_by_hand(lambda model: Clip(norm=0.5).apply(model.parameters()))
    torch.testing.assert_close(weights_after(settings, optimizer=hooked), by_hand, rtol=0.01, atol=0.002)


def test_a_loop_of_ones_own_clips_what_is_whole_and_unscaled() -> None:
    """Two optimizers of one loss, each in two parts, under float16."""
    clip = Clip(norm=0.5)
    by_hand = weights_by_hand(lambda model: [clip.apply(layer.parameters()) for layer in (model[0], model[2])])  # type: ignore[arg-type, func-returns-value, index]  # fmt: skip
    model = network()
    applied = Applied(FLOAT16 | {"optimizer.accumulation": 2})
    layers = (model[0], model[2])  # type: ignore[index]  # to mypy it may be a tensor
    optimizers = [applied.optimizer(torch.optim.SGD(layer.parameters(), lr=1e-3)) for layer in layers]
    for part in range(12):
        chosen = slice(8 * (part % 8), 8 * (part % 8) + 8)
        with applied.forward():
            loss = nn.functional.mse_loss(model(INPUTS[chosen]), TARGETS[chosen])
        applied.backward(loss)
        for layer, optimizer in zip(layers, optimizers, strict=True):
            assert applied.unscale(optimizer) is (part % 2 == 1)
            if part % 2:
                clip.apply(layer.parameters())
        for optimizer in optimizers:
            assert applied.step(optimizer) is (part % 2 == 1)
    found = nn.utils.parameters_to_vector(model.parameters()).detach()
    torch.testing.assert_close(found, by_hand, rtol=0.01, atol=0.002)


def test_infinite_gradients_are_skipped_though_they_are_clipped() -> None:
    """Clipping makes NaN of them; the scaler has seen them before."""
    for form in ({}, {"optimizer.fused": True}):
        model = network()
        applied = Applied(FLOAT16 | form)
        optimizer = applied.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
        applied.backward(model(INPUTS).sum() * 1e36)
        assert applied.unscale(optimizer)
        Clip(norm=1.0).apply(model.parameters())
        applied.step(optimizer)
        assert torch.equal(nn.utils.parameters_to_vector(model.parameters()).detach(), before)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({}, "exactly one of norm and value must be given, got neither"),
        ({"norm": 1.0, "value": 1.0}, "got norm and value"),
        ({"norm": 0}, r"norm must be a number above 0, got 0\. Try Clip\(norm=1\.0\)"),
        ({"value": True}, "value must be a number above 0, got True"),
    ],
)
def test_a_clip_that_limits_nothing_is_refused(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequestError, match=said):
        Clip(**limits)


def test_an_optimizer_may_ask_for_names_or_the_model() -> None:
    """No weight decay on biases needs names; parameters alone have none."""

    def by_name(named_parameters: Any) -> torch.optim.Optimizer:
        decayed = [parameter for name, parameter in named_parameters if name.endswith("weight")]
        others = [parameter for name, parameter in named_parameters if not name.endswith("weight")]
        return torch.optim.AdamW([{"params": decayed}, {"params": others, "weight_decay": 0.0}], lr=0.1)

    def by_model(model: nn.Module, rate: float = 0.1) -> torch.optim.Optimizer:
        return torch.optim.SGD(model[0].parameters(), lr=rate)  # type: ignore[index]  # to mypy it may be a tensor

    named = Loop(training(optimizer=by_name), Applied({"optimizer.fused": True}), seed=0)
    assert [len(group["params"]) for group in named.optimizer.param_groups] == [2, 2]
    assert [group["weight_decay"] for group in named.optimizer.param_groups] == [0.01, 0.0]
    assert len(Loop(training(optimizer=by_model), Applied({}), seed=0).optimizer.param_groups[0]["params"]) == 2
    assert describe(training(optimizer=by_name)).optimizer == "AdamW"
    assert training(optimizer=torch.optim.SGD).make_optimizer(network()).param_groups[0]["lr"] == 1e-3
    with pytest.raises(BadRequestError, match=r"a function of one argument: .* got one of model, rate"):
        training(optimizer=lambda model, rate: None)
    with pytest.raises(BadRequestError, match=r"clip must be an autoaccel\.Clip, such as Clip\(norm=1\.0\), got 1\.0"):
        training(clip=1.0)


KINDS = torch.optim.lr_scheduler


@pytest.mark.parametrize(
    "schedule",
    [
        None,
        lambda optimizer: KINDS.OneCycleLR(optimizer, max_lr=0.01, total_steps=8),
        lambda optimizer: KINDS.CyclicLR(optimizer, 0.001, 0.01, step_size_up=2, cycle_momentum=False),
        lambda optimizer: KINDS.LambdaLR(optimizer, lambda step: 1 / (1 + step)),
        lambda optimizer: KINDS.CosineAnnealingLR(optimizer, 8, eta_min=1e-4),
    ],
    ids=["none", "one cycle", "cyclic", "lambda", "cosine"],
)
def test_the_learning_rate_follows_whatever_sets_it(schedule: Any) -> None:
    """A schedule of absolute rates, such as OneCycleLR, undid the rule without a word."""
    found: dict[str, list[float]] = {}
    for rule in ("none", "linear", "sqrt"):
        used: list[float] = []

        def watched(parameters: Any, used: list[float] = used) -> torch.optim.Optimizer:
            class Watched(torch.optim.SGD):
                def step(self, closure: Any = None) -> Any:
                    used.append(float(self.param_groups[0]["lr"]))
                    return super().step(closure)

            return Watched(parameters, lr=1e-3)

        settings: Settings = {"optimizer.batch_factor": 0.25, "optimizer.lr_rule": rule}
        made = training(optimizer=watched, scheduler=schedule, scheduler_interval="step")
        loop = Loop(made, Applied(settings), seed=0)
        for _ in range(7):
            loop.step()
        found[rule] = used
        assert not loop.applied.check()[1]
    assert found["linear"] == pytest.approx([rate / 4 for rate in found["none"]])
    assert found["sqrt"] == pytest.approx([rate / 2 for rate in found["none"]])


def test_a_wrapped_optimizer_whose_rates_are_its_own_is_told() -> None:
    """The rule set what nobody read."""

    class Wrapper:
        param_groups: list[dict[str, Any]] = [{"lr": 0.1, "params": []}]  # noqa: RUF012  # as a user would write it

    with pytest.raises(IneffectiveError, match=r"Wrapper is not a torch\.optim\.Optimizer"):
        Applied({"optimizer.batch_factor": 2.0, "optimizer.lr_rule": "linear"}).optimizer(Wrapper())  # type: ignore[arg-type]  # not an Optimizer, which is the case
