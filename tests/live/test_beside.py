"""Updates computed beside a training's own: they say what rounds and what harms, and leave the training as it was."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from autoaccel.live.blocks import POINTS
from autoaccel.records.rounding import UpdatesCompared
from autoaccel.records.settings import Settings
from autoaccel.runtime.knobs.layout import ChannelsLast
from autoaccel.runtime.script.beside import Beside
from autoaccel.runtime.script.switched import SwitchedSettings
from autoaccel.statistics.rounding import judge_updates

from .samples import own_settings

Found = UpdatesCompared | str


def convolutions() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(),
                         nn.Flatten(), nn.Dropout(0.2), nn.Linear(8 * 16, 10))  # fmt: skip


def train(
    settings: Settings | None,
    make: Callable[[], nn.Module] = convolutions,
    clip: float | None = None,
    steps: int = 12,
    parts: int = 1,
    several: bool = False,
) -> tuple[list[float], Found | None]:
    """Return the losses of a training, the sum of its weights last, and what updates beside it say of settings."""
    torch.manual_seed(0)
    model = make()
    matrices = [one for one in model.parameters() if several and one.ndim > 1]
    optimizers: list[torch.optim.Optimizer] = [torch.optim.SGD(matrices, lr=0.02, momentum=0.9)] if several else []
    optimizers.append(torch.optim.AdamW((one for one in model.parameters() if not several or one.ndim == 1), lr=1e-3))
    switched = SwitchedSettings(own_settings(), "cpu")
    switched.equip_model(model)
    for optimizer in optimizers:
        switched.equip_optimizer(optimizer)
    beside = Beside(switched, optimizers, {**own_settings(), **settings}, POINTS) if settings is not None else None
    found: Found | None = None
    losses = []
    for _ in range(steps):
        model.zero_grad()
        for _ in range(parts):
            loss = functional.cross_entropy(model(torch.randn(16, 3, 8, 8)), torch.randint(10, (16,))) / parts
            if beside is not None and found is None:
                beside.backward_begins(loss)
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        for optimizer in optimizers:
            if beside is not None and found is None:
                beside.update_begins(optimizer)
            optimizer.step()
        if beside is not None and found is None:
            found = beside.step_ended()
        losses.append(loss.item())
    return [*losses, sum(one.double().sum().item() for one in model.state_dict().values())], found


ROUNDING: list[Settings] = [
    {"layout.channels_last": True},
    {"optimizer.fused": True},
    {"threads.intra_op": 1},
    {"layout.channels_last": True, "optimizer.fused": True, "threads.intra_op": 1},
]


@pytest.mark.parametrize("settings", ROUNDING, ids=lambda settings: ", ".join(settings))
@pytest.mark.parametrize("clip", [None, 0.1])
def test_what_only_rounds_is_told_so_and_the_training_is_as_it_was(settings: Settings, clip: float | None) -> None:
    plain, _ = train(None, clip=clip)
    losses, found = train(settings, clip=clip)
    assert losses == plain
    assert isinstance(found, UpdatesCompared), found
    evidence = judge_updates(found)
    assert evidence.verdict == "holds", evidence
    assert evidence.error_share < 1e-6
    assert evidence.repeat_share < 1e-6


def test_several_optimizers_of_a_step_make_their_updates_side_by_side() -> None:
    settings: Settings = {"layout.channels_last": True, "optimizer.fused": True, "threads.intra_op": 1}
    plain, _ = train(None, several=True)
    losses, found = train(settings, several=True)
    assert losses == plain
    assert isinstance(found, UpdatesCompared), found
    evidence = judge_updates(found)
    assert evidence.verdict == "holds", evidence
    assert evidence.error_share < 1e-6
    assert any(one.name.endswith("(momentum_buffer)") for one in found.errors)
    assert any(one.name.endswith("(exp_avg)") for one in found.errors)


def test_an_optimizer_that_makes_several_updates_in_a_step_is_left_alone() -> None:
    one = torch.optim.SGD([nn.Parameter(torch.zeros(1))])
    assert Beside(SwitchedSettings(own_settings(), "cpu"), [one, one], own_settings(), POINTS).step_ended() == (
        "an optimizer makes several updates in a step"
    )


def test_gradients_that_are_accumulated_are_summed() -> None:
    plain, _ = train(None, parts=3)
    losses, found = train({"layout.channels_last": True, "threads.intra_op": 1}, parts=3)
    assert losses == plain
    assert isinstance(found, UpdatesCompared), found
    evidence = judge_updates(found)
    assert evidence.verdict == "holds", evidence
    assert evidence.error_share < 1e-6
    # As large as the loss of a whole batch, of which each part is a third.
    assert 2.0 < found.losses[0] < 3.0


@pytest.mark.parametrize(
    ("harm", "verdict"),
    [(lambda tensor: tensor.bfloat16().float(), "holds"), (lambda tensor: tensor + 0.5 * tensor.roll(1), "too large")],
)
def test_what_changes_the_inputs_is_told_by_how_much(
    harm: Callable[[torch.Tensor], torch.Tensor], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChannelsLast, "batch", lambda self, tensor: harm(tensor))
    plain, _ = train(None)
    losses, found = train({"layout.channels_last": True})
    assert losses == plain
    assert isinstance(found, UpdatesCompared), found
    assert judge_updates(found).verdict == verdict


def test_gradients_are_those_at_outputs_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs scaled by 1.05 have other gradients of the loss, to which the second derivative leads."""
    monkeypatch.setattr(ChannelsLast, "batch", lambda self, tensor: tensor * 1.05)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 3, 1), nn.Flatten(), nn.Linear(192, 10))
    plain, inputs, labels = copy.deepcopy(model), torch.randn(16, 3, 8, 8), torch.randint(10, (16,))
    switched = SwitchedSettings(own_settings(), "cpu")
    switched.equip_model(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    beside = Beside(switched, [optimizer], {**own_settings(), "layout.channels_last": True}, POINTS)
    beside.backward_begins(functional.cross_entropy(model(inputs), labels))
    assert beside._computed is not None
    own, others = (torch.cat([one.flatten() for one in each if one is not None]) for each in beside._computed)
    true = torch.autograd.grad(functional.cross_entropy(plain(1.05 * inputs), labels), list(plain.parameters()))
    at_true = torch.cat([one.flatten() for one in true])
    assert float((others - at_true).norm() / (own - at_true).norm()) < 0.05


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Flatten(), nn.Linear(192, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.inner(x)
        return found


class Hooked(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []
        self.inner.register_forward_hook(lambda module, inputs, output: self.seen.append(output))


class Unlike(Linear):
    """A model that computes something else each time: its updates cannot be compared."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Unlike.calls += 1
        return super().forward(x.roll(Unlike.calls, 0))


def test_a_model_with_hooks_is_left_alone() -> None:
    _, found = train({"optimizer.fused": True}, Hooked)
    assert found == "the model has hooks"


def test_one_that_is_not_the_same_twice_is_left_open() -> None:
    _, found = train({"optimizer.fused": True}, Unlike)
    assert isinstance(found, UpdatesCompared), found
    evidence = judge_updates(found)
    assert (evidence.verdict, evidence.reason) == ("open", "your own updates also differ when they are repeated")
