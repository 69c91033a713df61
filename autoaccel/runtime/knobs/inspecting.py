"""Look at a model while a batch runs through it, and leave its training as it was."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from autoaccel.runtime.modules import layers
from autoaccel.runtime.randomness import same_random_numbers_after

LossOf = Callable[[nn.Module], torch.Tensor]
"""Returns the loss of a model on a batch."""


def executed_layers(model: nn.Module, loss_of: LossOf) -> list[nn.Module]:
    """Return the convolutions and linear layers that a batch runs through, in that order, each once."""
    order: dict[int, nn.Module] = {}

    def note(module: nn.Module, inputs: Any) -> None:
        order.setdefault(id(module), module)

    hooks = [layer.register_forward_pre_hook(note) for layer in layers(model)]
    try:
        with undisturbed(model), torch.no_grad():
            loss_of(model)
    finally:
        for hook in hooks:
            hook.remove()
    return list(order.values())


def count_flops(model: nn.Module, loss_of: LossOf) -> int:
    """Return the floating-point operations of a forward and backward pass over a batch."""
    twin = copy.deepcopy(model)
    with undisturbed(twin), FlopCounterMode(display=False) as counter:
        loss_of(twin).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return int(counter.get_total_flops())


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Leave random numbers and running statistics as they were: a look at the model must not change its training."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    with same_random_numbers_after(device):
        yield
    for module, training in modes.items():
        module.training = training
