"""Structured pruning: the least important channels are removed for good, and the rest trains on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from autoaccel.records.settings import Value
from autoaccel.records.trial import ModelSize
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError
from autoaccel.runtime.modules import count_parameters, layers
from autoaccel.runtime.randomness import same_random_numbers_after

Run = Callable[[nn.Module], torch.Tensor]
"""Returns the loss of a model on a batch."""


class Pruning(Effect):
    """Remove a share of the channels after a warm-up."""

    def __init__(self, name: str, settings: Mapping[str, Value], device: torch.device) -> None:
        super().__init__(name, settings, device)
        self.size: ModelSize | None = None

    def shrinks_after(self) -> int | None:
        return int(self.settings.get("model.pruning_warmup", 1)) if self.value else None

    def shrink(self, model: nn.Module, run: Run) -> tuple[nn.Module, ModelSize]:
        sparsity = float(self.value)
        criterion = str(self.settings.get("model.pruning_criterion", "l1"))
        used = executed_layers(model, run)
        kept = used[-1:] if self.settings.get("model.pruning_keeps", "last") == "last" else [*used[:1], *used[-1:]]
        if self.settings.get("model.pruning_library", "torch-pruning") == "nni":
            from autoaccel.runtime.knobs.pruning_nni import prune
        else:
            from autoaccel.runtime.knobs.pruning_torch import prune
        before = count_parameters(model), count_flops(model, run)
        smaller = prune(copy.deepcopy(model), run, sparsity, 1 if criterion == "l1" else 2, kept_names(model, kept))
        self.size = ModelSize(before[0], count_parameters(smaller), before[1], count_flops(smaller, run))
        if self.size.parameters == self.size.baseline_parameters:
            raise IneffectiveError("no channel of the model could be removed")
        return smaller, self.size

    def check(self) -> str:
        if not self.value:
            return ""
        if self.size is None:
            raise IneffectiveError("the training ended before its channels were to be removed")
        return (
            f"{self.size.baseline_parameters:,} -> {self.size.parameters:,} parameters, "
            f"{self.size.baseline_flops:.3g} -> {self.size.flops:.3g} FLOPs a step"
        )


def executed_layers(model: nn.Module, run: Run) -> list[nn.Module]:
    """Return the convolutions and linear layers that a batch runs through, in that order, each once."""
    order: dict[int, nn.Module] = {}

    def note(module: nn.Module, inputs: Any) -> None:
        order.setdefault(id(module), module)

    hooks = [layer.register_forward_pre_hook(note) for layer in layers(model)]
    try:
        with undisturbed(model), torch.no_grad():
            run(model)
    finally:
        for hook in hooks:
            hook.remove()
    return list(order.values())


def kept_names(model: nn.Module, kept: Sequence[nn.Module]) -> tuple[str, ...]:
    """Return the names of the layers whose outputs keep their number."""
    wanted = {id(module) for module in kept}
    return tuple(name for name, module in model.named_modules() if id(module) in wanted)


def count_flops(model: nn.Module, run: Run) -> int:
    """Return the floating-point operations of a forward and backward pass over a batch."""
    twin = copy.deepcopy(model)
    with undisturbed(twin), FlopCounterMode(display=False) as counter:
        run(twin).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
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
