"""Rounding that is planted in trainings: from what nobody would notice to what ruins them."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from autoaccel import Training
from autoaccel.records.settings import Settings

Plant = Callable[[Training], Training]
Change = Callable[[torch.Tensor], torch.Tensor]


def to_bits(tensor: torch.Tensor, bits: int, toward_zero: bool = False) -> torch.Tensor:
    """Return the nearest numbers of so many significant bits, the first one included; ties to even, as IEEE 754 has it.

    Args:
        tensor: Of float32, whose bits are those of its magnitude in order.
        bits: Fewer than 24.
        toward_zero: Whether bits are cut off instead.
    """
    shift = 24 - bits
    whole = tensor.view(torch.int32)
    if not toward_zero:
        whole = whole + (2 ** (shift - 1) - 1) + ((whole >> shift) & 1)
    return (whole & -(2**shift)).view(torch.float32)


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
    plain_loss = training.loss
    assert plain_loss is not None

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if target.is_floating_point():
            target = target.bfloat16()
        return plain_loss(output.bfloat16(), target).float()

    return dataclasses.replace(training, loss=loss)


def loss_added_up(training: Training) -> Training:
    """Add up the loss of one sample after the other in bfloat16, and the gradients with them."""
    plain_loss = training.loss
    assert plain_loss is not None
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
            one = plain_loss(model(inputs[place : place + 1]), target[place : place + 1]) / len(inputs)
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
        plain_loss = training.loss
        assert plain_loss is not None
        return plant(dataclasses.replace(training, loss=lambda output, target: 1e-4 * plain_loss(output, target)))

    return planted


@dataclasses.dataclass(frozen=True)
class Case:
    """What is planted."""

    plant: Plant = as_it_is
    settings: Settings = dataclasses.field(default_factory=dict)
    baseline: Plant = as_it_is  # what the training as it is differs by, for the case's sake
    only: Callable[[Training], bool] = lambda training: True


def _under_adam(training: Training) -> bool:
    made = training.make_optimizer(training.model)
    return isinstance(made, (torch.optim.Adam, torch.optim.AdamW))


def _normalises(training: Training) -> bool:
    return any(isinstance(module, (nn.LayerNorm, nn.BatchNorm2d)) for module in training.model.modules())


def _one_by_one(training: Training) -> bool:
    """Whether a batch may be taken apart, and is soon done: layers that see or drop a batch as a whole may not."""
    others = (nn.BatchNorm2d, nn.Dropout, nn.Embedding)
    return not any(isinstance(module, others) for module in training.model.modules())


CASES: dict[str, Case] = {
    "autocast bfloat16": Case(settings={"precision.autocast": "bfloat16"}),
    "channels last": Case(
        settings={"layout.channels_last": True},
        only=lambda training: any(isinstance(module, nn.Conv2d) for module in training.model.modules()),
    ),
    "optimizer fused": Case(settings={"optimizer.fused": True}),
    **{f"activations of {count} bits": Case(activations(bits(count), bits(count))) for count in (8, 5, 4, 3, 2)},
    "activations in float16, not scaled": Case(activations(_float16, _float16)),
    "activations in float16, not scaled, of a small loss": Case(
        small_loss(activations(_float16, _float16)), baseline=small_loss(as_it_is), only=_under_adam
    ),
    **{
        f"gradients below {share:g} of their mean lost": Case(activations(_same, lost_below(share)))
        for share in (0.1, 1.0, 2.0)
    },
    **{
        f"gradients cut to {count} bits": Case(
            around_step(before=functools.partial(to_bits, bits=count, toward_zero=True))
        )
        for count in (8, 4, 2)
    },
    **{f"weights of {count} bits": Case(around_step(after=bits(count))) for count in (16, 11, 6)},
    **{f"optimizer's state of {count} bits": Case(around_step(state=bits(count))) for count in (8, 3)},
    **{f"normalisations of {count} bits": Case(normalisations(bits(count)), only=_normalises) for count in (8, 5, 3)},
    "loss in bfloat16": Case(loss_in_bfloat16),
    "loss added up in bfloat16": Case(loss_added_up, only=_one_by_one),
}
"""What is planted, by name."""
