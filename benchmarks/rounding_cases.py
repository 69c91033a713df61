"""Rounding that is planted in trainings: which of it harms them, and what the evidence called rounding says of it.

    python benchmarks/rounding_cases.py [--only TRAINING ...]

Each case is a training of benchmarks/rounding_trainings.py in which numbers are rounded more, or lost, at one place.
It is trained to its end from several seeds, beside the same training as it is: it harms if its metric is worse by more
than 1 % with 95 % confidence, and it is harmless if it is not worse by 1 % with 95 % confidence. From the first seeds
its updates are judged as `autoaccel tune` judges them: from a course of 64 steps, and from the shortest there is. The
limits were set on one half of the trainings; the other half only shows how they do. Results go to
benchmarks/results/rounding.jsonl; `--limits` says what the numbers of the first half leave room for.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import statistics
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import torch
from rounding_trainings import HELD_OUT, SETTING
from rows import add_row, latest, read_rows, to_measure
from torch import nn

from autoaccel import Training
from autoaccel.records.rounding import RoundingEvidence, UpdatesRecorded
from autoaccel.records.settings import Settings
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.randomness import seed_all
from autoaccel.runtime.rounding import compare_updates, plan_steps, record_updates
from autoaccel.statistics.rounding import judge_updates
from autoaccel.statistics.student import t_quantile

CODE = (
    "autoaccel/runtime/rounding.py",
    "autoaccel/runtime/updates.py",
    "autoaccel/statistics/rounding.py",
    "benchmarks/rounding_cases.py",
    "benchmarks/rounding_trainings.py",
)
ALLOWED = 0.01  # of the metric: what may be lost
EVIDENCES = 3  # seeds whose updates are judged
SEEDS = {"friedman_perceptron": 24, "digits_perceptron": 12}
"""That are trained, where they are more than six: its metric scatters by a percent from run to run, or it is quick."""
COURSES = ("long", "short")
BFLOAT16_BITS, FLOAT16_BITS = 8, 11

Plant = Callable[[Training], Training]
Change = Callable[[torch.Tensor], torch.Tensor]


def to_bits(tensor: torch.Tensor, bits: int, toward_zero: bool = False) -> torch.Tensor:
    """Return the nearest numbers of so many significant bits, the first one included, of any size."""
    mantissa, exponent = torch.frexp(tensor)
    scaled = mantissa * 2**bits
    return torch.ldexp((scaled.trunc() if toward_zero else scaled.round()) / 2**bits, exponent)


class _Changed(torch.autograd.Function):
    """A tensor that is changed on its way forward, and its gradient on its way back."""

    @staticmethod
    def forward(context: Any, tensor: torch.Tensor, forward: Change, backward: Change) -> torch.Tensor:
        context.backward_change = backward
        return forward(tensor)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return context.backward_change(gradients[0]), None, None


def activations(forward: Change, backward: Change) -> Plant:
    """Change what goes in and out of every layer, and its gradient."""

    def changed(tensor: Any) -> Any:
        floating = isinstance(tensor, torch.Tensor) and tensor.is_floating_point()
        return _Changed.apply(tensor, forward, backward) if floating and torch.is_grad_enabled() else tensor

    def plant(training: Training) -> Training:
        for module in training.model.modules():
            if isinstance(module, (nn.Linear, nn.Conv2d, nn.Embedding, nn.LayerNorm, nn.BatchNorm2d)):
                module.register_forward_pre_hook(lambda module, inputs: tuple(map(changed, inputs)))
                module.register_forward_hook(lambda module, inputs, output: changed(output))
        return training

    return plant


def lost_below(share: float) -> Change:
    """Return what makes zeros of numbers below a share of their root mean square."""
    return lambda tensor: torch.where(tensor.abs() < share * tensor.square().mean().sqrt(), 0.0, tensor)


def around_step(before: Change | None = None, after: Change | None = None, state: Change | None = None) -> Plant:
    """Change gradients before an optimizer's step, weights after it, or what the optimizer remembers."""

    def grouped(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
        return [parameter for group in optimizer.param_groups for parameter in group["params"]]

    @torch.no_grad()
    def first(optimizer: torch.optim.Optimizer, *rest: Any) -> None:
        for parameter in grouped(optimizer):
            if before is not None and parameter.grad is not None:
                parameter.grad.copy_(before(parameter.grad))

    @torch.no_grad()
    def then(optimizer: torch.optim.Optimizer, *rest: Any) -> None:
        for parameter in grouped(optimizer):
            if after is not None:
                parameter.copy_(after(parameter))
            for value in optimizer.state[parameter].values() if state is not None else ():
                if isinstance(value, torch.Tensor) and value.shape == parameter.shape:
                    value.copy_(state(value))

    def plant(training: Training) -> Training:
        def make(params: Any) -> torch.optim.Optimizer:
            made = training.optimizer(params)
            made.register_step_pre_hook(first)
            made.register_step_post_hook(then)
            return made

        return dataclasses.replace(training, optimizer=make)

    return plant


def normalisations(change: Change) -> Plant:
    """Compute normalisations as the mean of squares less the square of the mean, each number changed."""

    def normalised(module: Any, x: torch.Tensor) -> torch.Tensor:
        if not module.training:
            return type(module).forward(module, x)
        over = (0, 2, 3) if isinstance(module, nn.BatchNorm2d) else (-1,)
        x = _Changed.apply(x, change, change)
        mean = _Changed.apply(x.mean(over, keepdim=True), change, change)
        squares = _Changed.apply(_Changed.apply(x.square(), change, change).mean(over, keepdim=True), change, change)
        variance = _Changed.apply(squares - _Changed.apply(mean.square(), change, change), change, change).clamp(min=0)
        y = (x - mean) * (variance + module.eps).rsqrt()
        if isinstance(module, nn.BatchNorm2d):
            with torch.no_grad():
                module.running_mean.lerp_(mean.flatten(), module.momentum)
                module.running_var.lerp_(variance.flatten(), module.momentum)
            return y * module.weight[:, None, None] + module.bias[:, None, None]
        return y * module.weight + module.bias

    def plant(training: Training) -> Training:
        for module in training.model.modules():
            if isinstance(module, (nn.LayerNorm, nn.BatchNorm2d)):
                module.forward = types.MethodType(normalised, module)
        return training

    return plant


def loss_in_bfloat16(training: Training) -> Training:
    """Compute the loss of outputs in bfloat16, its sums included."""
    own = training.loss
    assert own is not None

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if target.is_floating_point():
            target = target.bfloat16()
        return own(output.bfloat16(), target).float()

    return dataclasses.replace(training, loss=loss)


def loss_added_up(training: Training) -> Training:
    """Add up the loss of one sample after the other in bfloat16, and the gradients with them."""
    own = training.loss
    assert own is not None
    short = torch.bfloat16

    def add(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        parameter.grad.copy_(parameter.grad.to(short))

    for parameter in training.model.parameters():
        parameter.register_post_accumulate_grad_hook(add)

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        inputs, target = batch
        total = torch.zeros((), dtype=short)
        for place in range(len(inputs)):
            one = own(model(inputs[place : place + 1]), target[place : place + 1]) / len(inputs)
            total += one.detach().to(short)
            if place < len(inputs) - 1:
                one.backward()
        return one - one.detach() + total.float()

    return dataclasses.replace(training, loss=None, step=step)


def as_it_is(training: Training) -> Training:
    """Plant nothing."""
    return training


def bits(count: int) -> Change:
    """Return what rounds to so many significant bits."""
    return lambda tensor: to_bits(tensor, count)


def _float16(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.half().float()


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def small_loss(plant: Plant) -> Plant:
    """Plant it where the loss is a ten-thousandth, which Adam does not mind."""

    def planted(training: Training) -> Training:
        own = training.loss
        assert own is not None
        return plant(dataclasses.replace(training, loss=lambda output, target: 1e-4 * own(output, target)))

    return planted


@dataclasses.dataclass(frozen=True)
class Case:
    """What is planted."""

    plant: Plant = as_it_is
    settings: Settings = dataclasses.field(default_factory=dict)
    own: Plant = as_it_is  # what the training as it is differs by, for the case's sake
    only: Callable[[Training], bool] = lambda training: True


def _under_adam(training: Training) -> bool:
    made = training.make_optimizer(training.model)
    return isinstance(made, (torch.optim.Adam, torch.optim.AdamW))


def _normalises(training: Training) -> bool:
    return any(isinstance(module, (nn.LayerNorm, nn.BatchNorm2d)) for module in training.model.modules())


def _one_by_one(training: Training) -> bool:
    return not any(isinstance(module, (nn.BatchNorm2d, nn.Dropout)) for module in training.model.modules())


CASES: dict[str, Case] = {
    "autocast bfloat16": Case(settings={"precision.autocast": "bfloat16"}),
    "channels last": Case(
        settings={"layout.channels_last": True},
        only=lambda training: any(isinstance(module, nn.Conv2d) for module in training.model.modules()),
    ),
    "optimizer by parameter": Case(settings={"optimizer.foreach": "off"}),
    "optimizer fused": Case(settings={"optimizer.fused": True}),
    **{f"activations of {count} bits": Case(activations(bits(count), bits(count))) for count in (8, 5, 4, 3, 2)},
    "activations in float16, not scaled": Case(activations(_float16, _float16)),
    "activations in float16, not scaled, of a small loss": Case(
        small_loss(activations(_float16, _float16)), own=small_loss(as_it_is), only=_under_adam
    ),
    **{
        f"gradients below {share:g} of their mean lost": Case(activations(_same, lost_below(share)))
        for share in (0.1, 0.5, 1.0, 2.0)
    },
    **{
        f"gradients cut to {count} bits": Case(
            around_step(before=functools.partial(to_bits, bits=count, toward_zero=True))
        )
        for count in (8, 4, 2)
    },
    **{f"weights of {count} bits": Case(around_step(after=bits(count))) for count in (16, 11, 8, 6)},
    **{f"optimizer's state of {count} bits": Case(around_step(state=bits(count))) for count in (8, 5, 3)},
    **{f"normalisations of {count} bits": Case(normalisations(bits(count)), only=_normalises) for count in (8, 5, 3)},
    "loss in bfloat16": Case(loss_in_bfloat16),
    "loss added up in bfloat16": Case(loss_added_up, only=_one_by_one),
}
"""What is planted, by name: from what nobody would notice to what ruins a training."""


def _loop(build: Callable[[], Training], plant: Plant, settings: Settings, seed: int) -> Loop:
    seed_all(seed)
    return Loop(plant(build()), Applied(settings, own={}), seed)


@functools.cache
def metric_of(name: str, plant: Plant, case: str, seed: int) -> float:
    """Return the metric at the end of a training; infinite if it diverges.

    Args:
        name: Of the training.
        plant: What is planted in it.
        case: Under whose settings; empty: none.
        seed: Of its weights and the order of its samples.
    """
    settings = CASES[case].settings if case else {}
    loop = _loop({**SETTING, **HELD_OUT}[name], plant, settings, seed)
    for _ in range(loop.planned_steps):
        loop.step()
    metric = loop.evaluate()
    return metric if math.isfinite(metric) else math.inf


def harm_of(name: str, case: Case, case_name: str, seeds: int) -> dict[str, Any]:
    """Return by how much the metric gets worse, of its own size, its 95 % interval (Student's), whether that harms."""
    direction = {**SETTING, **HELD_OUT}[name]().metric.direction
    own = [metric_of(name, case.own, "", seed) for seed in range(seeds)]
    other = [metric_of(name, case.plant, case_name, seed) for seed in range(seeds)]
    sign, size = (1.0 if direction == "maximize" else -1.0), abs(statistics.fmean(own))
    drops = [sign * (mine - theirs) / size for mine, theirs in zip(own, other, strict=True)]
    found: dict[str, Any] = {
        "seeds": seeds,
        "own_scatter": statistics.stdev(own) / size,
        "own": own,
        "planted": [metric if math.isfinite(metric) else None for metric in other],
    }
    if not all(map(math.isfinite, drops)):
        return {**found, "drop": None, "low": None, "high": None, "harms": "yes"}
    drop = statistics.fmean(drops)
    radius = t_quantile(0.975, seeds - 1) * statistics.stdev(drops) / math.sqrt(seeds)
    low, high = drop - radius, drop + radius
    harms = "yes" if low > ALLOWED else "no" if high < ALLOWED else "unclear"
    return {**found, "drop": drop, "low": low, "high": high, "harms": harms}


def evidence_of(name: str, case: Case, seed: int, course: str) -> RoundingEvidence:
    """Return what updates say of a case, from a long course or from the shortest."""
    build = {**SETTING, **HELD_OUT}[name]
    with tempfile.TemporaryDirectory() as folder:
        own = _loop(build, case.own, {}, seed)
        most = 10_000 if course == "long" else next(count for count in range(100) if plan_steps(count))
        recorded = record_updates(own, Path(folder), lambda step_seconds: most)
        assert isinstance(recorded, UpdatesRecorded), recorded
        return judge_updates(compare_updates(_loop(build, case.plant, case.settings, seed), Path(folder)))


def measure(name: str, case_name: str) -> None:
    """Add the row of one case."""
    case = CASES[case_name]
    evidence = {
        course: [msgspec.to_builtins(evidence_of(name, case, seed, course)) for seed in range(EVIDENCES)]
        for course in COURSES
    }
    found = {
        "training": name,
        "case": case_name,
        "set": "setting" if name in SETTING else "held out",
        **harm_of(name, case, case_name, SEEDS.get(name, 6)),
        "evidence": evidence,
    }
    add_row("rounding", f"{name}: {case_name}", found, code=CODE)
    verdicts = {course: [one["verdict"] for one in judged] for course, judged in evidence.items()}
    print(f"{name}: {case_name}: harms {found['harms']} ({found['drop']}), {verdicts}", flush=True)


NUMBERS = (
    "error_share",
    "worst_error_share",
    "systematic_share",
    "worst_systematic_share",
    "loss_difference",
)


def limits() -> None:
    """Print, for each number, where it lies in the setting cases that harm and in those that do not."""
    rows = [row.found for row in latest(read_rows("rounding")).values() if row.found["set"] == "setting"]
    for number in NUMBERS:
        for harms in ("no", "unclear", "yes"):
            values = sorted(
                max(one[number] for one in row["evidence"]["long"]) for row in rows if row["harms"] == harms
            )
            shown = " ".join(f"{value:.2g}" for value in values)
            print(f"{number} where it harms: {harms}: {shown}")


def main() -> None:
    """Measure what today's code has not measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[*SETTING, *HELD_OUT])
    parser.add_argument("--limits", action="store_true")
    parsed = parser.parse_args()
    torch.set_num_threads(1)  # small operators; and sums come out alike on every machine of a kind
    if parsed.limits:
        limits()
        return
    names = {
        f"{training}: {case}": (training, case)
        for training, build in {**SETTING, **HELD_OUT}.items()
        if training in parsed.only
        for case, planted in CASES.items()
        if planted.only(build())
    }
    for name in to_measure("rounding", names):
        measure(*names[name])


if __name__ == "__main__":
    main()
