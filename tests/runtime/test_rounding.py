"""Updates recorded under one's own settings and compared under others: in real trainings, some with planted harm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Dataset, TensorDataset

from autoaccel.bench.limits import BATCHES, POINTS
from autoaccel.bench.rounding import UPDATE_STEPS
from autoaccel.errors import BadRequestError
from autoaccel.records.messages import Failure
from autoaccel.records.rounding import RoundingEvidence, UpdatesCompared, UpdatesRecorded
from autoaccel.records.settings import Settings
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.clipping import Clip
from autoaccel.runtime.data import Drawn
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.randomness import seed_all
from autoaccel.runtime.rounding import compare_updates, record_updates
from autoaccel.runtime.training import Training
from autoaccel.runtime.updates import LoopSteps, Wanted
from autoaccel.statistics.rounding import error_share, judge_updates

SAMPLES = 256
INPUTS = torch.randn(SAMPLES, 1, 8, 8, generator=torch.Generator().manual_seed(0))
LABELS = (INPUTS[:, 0, :, :4].mean(dim=(1, 2)) > INPUTS[:, 0, :, 4:].mean(dim=(1, 2))).long()
BFLOAT16: Settings = {"precision.autocast": "bfloat16"}
Optimizer = Callable[[Any], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Optimizer] = {
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9, weight_decay=1e-3),
    "adam": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
}


class Augmented(Dataset[Any]):
    """Samples that are drawn with random numbers, as random crops are."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return INPUTS[index] + 0.1 * torch.randn(1, 8, 8), LABELS[index]


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3),  # its bias is one that a normalisation subtracts again
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(8 * 36, 32),
        nn.LayerNorm(32),
        nn.ReLU(),
        nn.Linear(32, 2),
    )


def loop_with(settings: Settings | None = None, **changes: Any) -> Loop:
    """Return a training under settings, always from the same seed."""
    seed_all(0)
    data = TensorDataset(INPUTS, LABELS)
    make_model = changes.pop("make_model", network)
    arguments: dict[str, Any] = {
        "model": make_model(),
        "train_data": data,
        "eval_data": data,
        "batch_size": 16,
        "epochs": 3,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": OPTIMIZERS["momentum"],
        "evaluate": "accuracy",
        **changes,
    }
    return Loop(Training(**arguments), Applied(settings or {}, found={}), seed=0)


def recorded_in(folder: Path, own: Loop) -> UpdatesRecorded | Failure:
    return record_updates(own, folder, POINTS, BATCHES)


def compared(folder: Path, own: Loop, other: Loop) -> UpdatesCompared:
    recorded = recorded_in(folder, own)
    assert isinstance(recorded, UpdatesRecorded)
    return compare_updates(other, folder)


def judged(folder: Path, own: Loop, other: Loop) -> RoundingEvidence:
    return judge_updates(compared(folder, own, other))


def rounded(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.bfloat16).to(tensor.dtype)


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_the_same_settings_make_the_same_updates(optimizer: str, tmp_path: Path) -> None:
    """With dropout, random samples, buffers, and a schedule that the points must not advance."""
    changes = {
        "optimizer": OPTIMIZERS[optimizer],
        "train_data": Augmented(),
        "scheduler": lambda made: LambdaLR(made, lambda step: 1 / (1 + step)),
        "scheduler_interval": "step",
    }
    found = compared(tmp_path, loop_with(**changes), loop_with(**changes))
    assert found.losses == found.baseline_losses
    assert len(found.losses) == POINTS[-1]
    assert {one.point for one in found.errors} == set(POINTS)
    kinds = {one.kind for one in found.errors}
    assert kinds == {"parameter", "state", "buffer"}
    assert all(one.error == one.repeat_error == 0.0 for one in found.errors)
    squares = {one.name for one in found.errors if one.squares}
    assert squares == {one.name for one in found.errors if one.name.endswith("(exp_avg_sq)")}
    moving = [one for one in found.errors if not one.name.startswith("0.bias")]  # that a normalisation takes away again
    assert all(one.noise > 0.0 for one in moving)
    assert judge_updates(found).verdict == "holds"


def test_updates_from_a_state_leave_the_training_where_it_was() -> None:
    """The same training with and without points in it, if both pass over the same batches."""

    def train(with_points: bool) -> tuple[list[float], float, int, dict[str, torch.Tensor]]:
        changes = {"scheduler": lambda made: LambdaLR(made, lambda step: 1 / (1 + step)), "scheduler_interval": "step"}
        loop = loop_with(**changes)
        steps = LoopSteps(loop)
        losses = []
        for _ in range(20):
            losses.append(steps.make(Wanted()).loss)
            if not with_points:
                steps._draw()
                continue
            state = steps.state.copy()
            update = steps.make(Wanted(state)).update
            assert any(bool(one.any()) for one in update.values())
            steps.state.restore(state)
        return losses, loop.optimizer.param_groups[0]["lr"], loop.steps_done, loop.plain_model.state_dict()

    plain, between = train(False), train(True)
    assert plain[:3] == between[:3]
    for name, tensor in plain[3].items():
        assert torch.equal(tensor, between[3][name]), name


def test_an_update_is_what_a_step_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of SGD without momentum: minus the learning rate times the gradient that the hand computes."""
    loop = loop_with(
        make_model=lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 2)),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.5),
    )
    steps = LoopSteps(loop)
    steps.make(Wanted())
    state = steps.state.copy()
    drawn: list[Drawn] = []
    monkeypatch.setattr(loop, "next_step", lambda own=loop.next_step: drawn.extend(own()) or drawn)
    made = steps.make(Wanted(state))
    weight = state["model"]["1.weight"].requires_grad_()
    inputs, target = drawn[0].batch
    logits = inputs.flatten(1) @ weight.T + state["model"]["1.bias"]
    (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(logits, target), weight)
    torch.testing.assert_close(made.update["1.weight"], -0.5 * gradient.flatten().double(), rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(made.gradients["1.weight"], gradient.flatten().double(), rtol=1e-4, atol=1e-7)


def test_gradients_are_those_that_the_optimizer_gets() -> None:
    """Clipped, and of all parts of a step."""

    def gradients(settings: Settings) -> dict[str, torch.Tensor]:
        model = {"make_model": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 2))}
        steps = LoopSteps(loop_with(settings, clip=Clip(norm=1e-3), **model))
        return steps.make(Wanted(steps.state.copy())).gradients

    whole, parts = gradients({}), gradients({"optimizer.accumulation": 4})
    length = sum(float(one.square().sum()) for one in whole.values()) ** 0.5
    assert length == pytest.approx(1e-3, rel=1e-3)
    for name, gradient in whole.items():
        torch.testing.assert_close(parts[name], gradient, rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
@pytest.mark.parametrize(
    "settings",
    [
        BFLOAT16,
        pytest.param({**BFLOAT16, "layout.channels_last": True}, marks=pytest.mark.long),
        {"optimizer.foreach": "on"},
    ],
)
def test_rounding_is_a_small_part_of_the_noise(optimizer: str, settings: Settings, tmp_path: Path) -> None:
    changes = {"optimizer": OPTIMIZERS[optimizer]}
    evidence = judged(tmp_path, loop_with(**changes), loop_with(settings, **changes))
    assert evidence.verdict == "holds", evidence
    assert evidence.repeat_share == 0.0
    if "precision.autocast" in settings:
        assert 1e-6 < evidence.error_share < 0.01


def test_float16_with_its_scaler_finds_its_scale_first(tmp_path: Path) -> None:
    """The gradients of so large a loss are infinite at first: the steps that the scaler leaves out are no updates."""

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        return 50 * nn.functional.cross_entropy(model(batch[0]), batch[1])

    changes = {"loss": None, "step": step, "optimizer": OPTIMIZERS["adam"]}
    other = loop_with({"precision.autocast": "float16"}, **changes)
    evidence = judged(tmp_path, loop_with(**changes), other)
    assert other.applied.state_dict()["precision.autocast"]["scale"] < 65536
    assert evidence.verdict == "holds", evidence


def test_coordinates_that_the_loss_does_not_depend_on_count_for_nothing(tmp_path: Path) -> None:
    """The keys' bias of attention: a third of a tensor that Adam moves by rounding alone, as far as all the rest."""

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
            self.head = nn.Linear(16, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.flatten(1).unflatten(1, (4, 16))
            return self.head(self.attention(x, x, x, need_weights=False)[0].mean(dim=1))

    changes = {"make_model": Attention, "optimizer": OPTIMIZERS["adam"]}
    found = compared(tmp_path, loop_with(**changes), loop_with(BFLOAT16, **changes))
    of_bias = [error_share(one) for one in found.errors if one.name == "attention.in_proj_bias"]
    assert of_bias and max(of_bias) < 0.1
    assert judge_updates(found).verdict == "holds", judge_updates(found)


class ShiftedNorm(nn.BatchNorm2d):
    """It finds its values a part of their standard deviation larger than they are, in its running statistics only."""

    PART = 0.01

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return super().forward(x)
        assert self.running_mean is not None and self.running_var is not None and self.momentum is not None
        mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=True)
        with torch.no_grad():
            self.running_mean.lerp_(mean + self.PART * self.running_var.sqrt(), self.momentum)
            self.running_var.lerp_(variance, self.momentum)
        normalised = nn.functional.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        assert isinstance(normalised, torch.Tensor)
        return normalised


def shifted(part: float) -> Callable[[], nn.Module]:
    def model() -> nn.Module:
        made = network()
        made[1] = ShiftedNorm(8)  # type: ignore[operator]  # it is an nn.Sequential
        made[1].PART = part  # type: ignore[operator]  # a module's attribute
        return made

    return model


def test_running_statistics_are_held_against_what_they_normalise(tmp_path: Path) -> None:
    """Means over thousands of values hardly scatter from batch to batch: beside that, any rounding would be large."""
    found = compared(tmp_path, loop_with(), loop_with(make_model=shifted(0.01)))
    shares = [error_share(one) for one in found.errors if one.name == "1.running_mean"]
    assert len(shares) == len(POINTS)
    assert shares == pytest.approx([0.01**2] * len(POINTS), rel=1e-3)
    assert judge_updates(found).verdict == "holds", judge_updates(found)


# --- planted harm ----------------------------------------------------------------------------------------------


class ShortWeights(torch.optim.SGD):
    """Weights that are kept in bfloat16: an update below half a step of theirs is lost."""

    def step(self, closure: Any = None) -> None:
        super().step(closure)
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.copy_(rounded(parameter))


class ShortState(torch.optim.Adam):
    """An optimizer's state in bfloat16: its mean of squares changes by a thousandth a step, and is lost."""

    def step(self, closure: Any = None) -> None:
        super().step(closure)
        for state in self.state.values():
            for key in ("exp_avg", "exp_avg_sq"):
                state[key].copy_(rounded(state[key]))


class ShortNorm(nn.LayerNorm):
    """The mean of squares less the square of the mean, in bfloat16, where the mean is large."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        short = (x + 30).to(torch.bfloat16)
        mean = short.mean(-1, keepdim=True)
        variance = (short.square().mean(-1, keepdim=True) - mean.square()).float().clamp(min=0)
        return (short - mean).float() * (variance + self.eps).rsqrt() * self.weight + self.bias


def test_lost_updates_are_refused(tmp_path: Path) -> None:
    def own(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=1e-4, momentum=0.9)

    def other(parameters: Any) -> torch.optim.Optimizer:
        return ShortWeights(parameters, lr=1e-4, momentum=0.9)

    evidence = judged(tmp_path, loop_with(optimizer=own), loop_with(optimizer=other))
    assert evidence.verdict == "too large"


def test_an_optimizers_state_that_stands_still_is_refused(tmp_path: Path) -> None:
    """It stands still only after a thousand steps: no update of the first few shows it."""

    def own(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, lr=1e-3)

    evidence = judged(tmp_path, loop_with(optimizer=own), loop_with(optimizer=lambda ones: ShortState(ones, lr=1e-3)))
    assert evidence.verdict == "too large"
    assert "(exp_avg" in evidence.reason


def test_gradients_that_underflow_are_refused(tmp_path: Path) -> None:
    """In float16 without a scaler, of a loss that is small."""

    def small(model: nn.Module, batch: Any) -> torch.Tensor:
        return 1e-6 * nn.functional.cross_entropy(model(batch[0]), batch[1])

    def unscaled(model: nn.Module, batch: Any) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.float16):
            return small(model, batch)

    changes = {"loss": None, "optimizer": OPTIMIZERS["adam"]}
    evidence = judged(tmp_path, loop_with(step=small, **changes), loop_with(step=unscaled, **changes))
    assert evidence.verdict == "too large"


def test_one_normalisation_in_a_short_type_is_refused(tmp_path: Path) -> None:
    def model() -> nn.Module:
        made = network()
        made[6] = ShortNorm(32)  # type: ignore[operator]  # it is an nn.Sequential
        return made

    evidence = judged(tmp_path, loop_with(), loop_with(make_model=model))
    assert evidence.verdict == "too large"


def test_running_statistics_that_are_off_are_refused(tmp_path: Path) -> None:
    evidence = judged(tmp_path, loop_with(), loop_with(make_model=shifted(1.0)))
    assert evidence.verdict == "too large"
    assert evidence.worst_tensor == "1.running_mean"


def test_what_becomes_infinite_is_refused(tmp_path: Path) -> None:
    def overflowing(model: nn.Module, batch: Any) -> torch.Tensor:
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        return loss * torch.tensor(1e30) * 1e30

    evidence = judged(tmp_path, loop_with(), loop_with(loss=None, step=overflowing))
    assert evidence.verdict == "too large"
    assert "finite" in evidence.reason


def test_own_updates_that_differ_each_time_leave_it_open(tmp_path: Path) -> None:
    """Random numbers from a generator of the user's own, which nobody can put back."""
    generator = torch.Generator().manual_seed(0)

    def noisy(model: nn.Module, batch: Any) -> torch.Tensor:
        inputs = batch[0] + torch.randn(batch[0].shape, generator=generator)
        return nn.functional.cross_entropy(model(inputs), batch[1])

    evidence = judged(tmp_path, loop_with(loss=None, step=noisy), loop_with(loss=None, step=noisy))
    assert evidence.verdict == "open"


def test_settings_that_take_a_parameter_away_cannot_be_compared(tmp_path: Path) -> None:
    assert isinstance(recorded_in(tmp_path, loop_with()), UpdatesRecorded)
    with pytest.raises(BadRequestError, match=r"0\.bias"):
        compare_updates(loop_with({"model.norm_biases": "drop"}), tmp_path)


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (lambda loss: loss * float("nan"), "the loss is not finite at step 1"),
        (lambda loss: loss + (0 * loss).sqrt(), "the update of 0.weight is not finite at step 6"),
    ],
)
def test_a_training_that_diverges_by_itself_is_told(
    factor: Callable[[torch.Tensor], torch.Tensor], message: str, tmp_path: Path
) -> None:
    made = []

    def broken(model: nn.Module, batch: Any) -> torch.Tensor:
        made.append(1)
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        return factor(loss) if "loss" in message or len(made) > POINTS[0] + 1 else loss

    answer = recorded_in(tmp_path, loop_with(loss=None, step=broken))
    assert isinstance(answer, Failure)
    assert (answer.kind, answer.message) == ("diverged", message)


class CausalAttention(nn.Module):
    """Attention of eight rows to those before them, whose mask is a buffer, as in many models."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.head = nn.Linear(8, 24), nn.Linear(8, 2)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project(x[:, 0]).chunk(3, dim=-1)
        return self.head(nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=self.mask)[:, -1])


@pytest.mark.parametrize("unset", [-torch.inf, torch.nan])
def test_a_buffer_that_stays_infinite_or_nan_is_no_update(unset: float, tmp_path: Path) -> None:
    def model() -> nn.Module:
        made = CausalAttention()
        made.register_buffer("unset", torch.tensor([unset, 0.0]))
        return made

    own, other = (loop_with(settings, make_model=model) for settings in ({}, BFLOAT16))
    assert own.plain_model.get_buffer("mask").isinf().any()
    assert judged(tmp_path, own, other).verdict == "holds"


def test_a_buffer_that_becomes_infinite_is_refused(tmp_path: Path) -> None:
    def spoiling(model: nn.Module, batch: Any) -> torch.Tensor:
        model.get_buffer("mask")[-1, 0] = -torch.inf
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    own, other = loop_with(make_model=CausalAttention), loop_with(make_model=CausalAttention, loss=None, step=spoiling)
    evidence = judged(tmp_path, own, other)
    assert (evidence.verdict, "finite" in evidence.reason) == ("too large", True)


# --- what is looked at -----------------------------------------------------------------------------------------


def test_recording_makes_as_many_steps_as_are_planned(tmp_path: Path) -> None:
    made = []

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        made.append(1)
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    assert isinstance(recorded_in(tmp_path, loop_with(loss=None, step=step)), UpdatesRecorded)
    assert len(made) == UPDATE_STEPS


def test_of_a_large_tensor_the_same_coordinates_are_looked_at_in_every_process() -> None:
    def model() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 512), nn.Linear(512, 2))

    def looked_at() -> dict[str, torch.Tensor]:
        steps = LoopSteps(loop_with(make_model=model))
        steps.make(Wanted())
        return steps.make(Wanted(steps.state.copy())).update

    one, other = looked_at(), looked_at()
    assert len(one["1.weight"]) == 4096 < 64 * 512
    assert all(torch.equal(one[name], other[name]) for name in one)


class Spectral(nn.Module):
    """A complex weight, each part of which moves the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.head = nn.Parameter(torch.ones(8, 5, dtype=torch.cfloat)), nn.Linear(64, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.fft.irfft2(torch.fft.rfft2(x[:, 0]) * self.weight, s=(8, 8)).flatten(1))


@pytest.mark.parametrize("part", [0, 1])
def test_both_parts_of_complex_numbers_are_looked_at(part: int, tmp_path: Path) -> None:
    def turned(parameters: Any) -> torch.optim.Optimizer:
        def turn(optimizer: torch.optim.Optimizer, *rest: Any) -> None:
            weight = next(one for group in optimizer.param_groups for one in group["params"] if one.is_complex())
            torch.view_as_real(weight.grad)[..., part] *= -1

        made = OPTIMIZERS["momentum"](parameters)
        made.register_step_pre_hook(turn)
        return made

    found = compared(tmp_path, loop_with(make_model=Spectral), loop_with(make_model=Spectral, optimizer=turned))
    evidence = judge_updates(found)
    assert (evidence.verdict, evidence.worst_tensor) == ("too large", "weight")
    assert {one.name: one.elements for one in found.errors}["weight"] == 2 * 8 * 5


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated")  # which Inductor itself calls
def test_compiled_dropout_draws_the_same_numbers(tmp_path: Path) -> None:
    """Inductor draws them in its own way: without care a step's error would be that of another dropout."""
    own, other = loop_with(), loop_with({"compile.mode": "default"})
    evidence = judged(tmp_path, own, other)
    assert evidence.verdict == "holds", evidence
    assert evidence.error_share < 1e-4
