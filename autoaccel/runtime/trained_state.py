"""What the steps of a training change: parameters, what optimizers remember of them, buffers; kept, and restored."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from autoaccel.records.rounding import Kind
from autoaccel.runtime.sparse import numbers_at, stored

_COORDINATES = 200_000
"""That are looked at in all, drawn at random: with all of a large model's, its updates would take more memory than the
training itself. Sums over so many are as good as exact beside what decides, factors."""

_MIN_OF_ONE, _MAX_OF_ONE = 256, 4096  # coordinates of a tensor

Values: TypeAlias = dict[str, torch.Tensor]
"""Name -> what was looked at of a tensor: coordinates, in float64, in the main memory."""

State: TypeAlias = dict[str, Any]
"""A copy of all that a step changes, in the main memory: tensors, numbers and None."""


class Tensor(NamedTuple):
    """What a step changes."""

    kind: Kind
    parameter: str  # it is, or belongs to; of a buffer its own name
    value: torch.Tensor


class TrainedState:
    """All that a step changes, by names that hold in every process that trains the same."""

    def __init__(self, models: Sequence[nn.Module], optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Begin with what is trained now.

        Args:
            models: That are trained, in an order that holds in every process.
            optimizers: Of a step, likewise.
        """
        self._models = {f"model {place}: " if len(models) > 1 else "": model for place, model in enumerate(models, 1)}
        named = {
            id(parameter): prefix + name
            for prefix, model in self._models.items()
            for name, parameter in model.named_parameters()
        }
        held = [
            (optimizer, parameter)
            for optimizer in optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        ]
        self._optimizers: dict[str, torch.optim.Optimizer] = {}
        self._parameters: dict[str, torch.Tensor] = {}
        for place, (optimizer, parameter) in enumerate(held):
            name = named.get(id(parameter), f"parameter {place}")
            self._parameters[name] = parameter
            self._optimizers[name] = optimizer
        each = _COORDINATES // max(1, len(self._parameters))
        self._most = max(_MIN_OF_ONE, min(_MAX_OF_ONE, each))
        self._indices: dict[str, torch.Tensor] = {}

    @property
    def parameters(self) -> Mapping[str, torch.Tensor]:
        """Name -> what is trained."""
        return self._parameters

    def copy(self) -> State:
        """Return a copy of all that a step changes."""
        remembered = {
            name: {key: _copied(value) for key, value in self._remembered(name).items() if is_plain(value)}
            for name in self._parameters
            if self._remembered(name)
        }
        return {"model": {name: _copied(value) for name, value in self._of_models().items()}, "optimizer": remembered}

    def restore(self, state: State) -> None:
        """Make all be what `copy` has returned, here or in another process.

        In place: compiled code, and optimizers, hold on to these tensors.
        """
        here = self._of_models()
        with torch.no_grad():
            for name, value in state["model"].items():
                here[name].copy_(value)
            for name, parameter in self._parameters.items():
                kept, of_all = state["optimizer"].get(name), self._optimizers[name].state
                if kept is None:
                    of_all.pop(parameter, None)
                else:
                    _put(of_all[parameter], kept, parameter.device)

    def values(self) -> Values:
        """Return what is looked at of each tensor that a step changes."""
        return {name: self._looked_at(one.parameter, one.value) for name, one in self._tensors()}

    def gradients(self, names: Sequence[str]) -> Values:
        """Return what is looked at of the gradients of these parameters; zero where one has none."""
        return {name: self._gradient(name, self._parameters[name]) for name in names}

    def names_in(self, optimizer: torch.optim.Optimizer) -> list[str]:
        """Return the names of the parameters that an optimizer updates."""
        return [name for name in self._parameters if self._optimizers[name] is optimizer]

    def short(self) -> set[str]:
        """Return the names of tensors whose numbers all have few significant bits: that are kept in a short type."""
        return {name for name, value in self.values().items() if _is_short(value)}

    def squares(self) -> set[str]:
        """Return the names of what an optimizer remembers and is never negative: its averages of squared gradients."""
        looked_at = self.values()
        return {name for name, one in self._tensors() if one.kind == "state" and bool((looked_at[name] >= 0).all())}

    def kinds(self) -> dict[str, tuple[Kind, str, int]]:
        """Return of each name its kind, the parameter it belongs to, and how many real numbers it consists of."""
        return {name: (one.kind, one.parameter, _elements(one.value)) for name, one in self._tensors()}

    def units(self) -> Values:
        """Return of each running statistic by what a step moves it that finds it wrong by the scatter of its values.

        By a standard deviation a running mean, by itself a running variance, each times the momentum of the average:
        a normalisation divides by that deviation, so in this unit an error is what it makes of the layer's output.
        """
        found: Values = {}
        for prefix, name, module in self._modules():
            if isinstance(module, _NormBase) and module.running_mean is not None and module.running_var is not None:
                seen = int(module.num_batches_tracked or 0)
                momentum = 1 / (1 + seen) if module.momentum is None else module.momentum
                for key, power in (("running_mean", 0.5), ("running_var", 1.0)):
                    buffer = prefix + (f"{name}.{key}" if name else key)
                    found[buffer] = momentum * self._looked_at(buffer, module.running_var + module.eps) ** power
        return {name: unit for name, unit in found.items() if bool(unit.all())}

    def _modules(self) -> Iterator[tuple[str, str, nn.Module]]:
        for prefix, model in self._models.items():
            for name, module in model.named_modules():
                yield prefix, name, module

    def _buffers(self) -> Values:
        return {
            prefix + name: buffer for prefix, model in self._models.items() for name, buffer in model.named_buffers()
        }

    def _of_models(self) -> Values:
        """Return what is trained, and the models' buffers."""
        return {**self._parameters, **self._buffers()}

    def _tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield what a step changes, by name; asked anew each time, for a step may put others in their places."""
        for name, parameter in self._parameters.items():
            yield name, Tensor("parameter", name, parameter)
            for key, value in self._remembered(name).items():
                if _is_floating(value) and value.shape == parameter.shape:
                    yield f"{name} ({key})", Tensor("state", name, value)
        for name, buffer in self._buffers().items():
            if _is_floating(buffer):
                yield name, Tensor("buffer", name, stored(buffer))

    def _remembered(self, name: str) -> dict[Any, Any]:
        found = self._optimizers[name].state.get(self._parameters[name], {})
        return found if isinstance(found, dict) else {}

    def _gradient(self, name: str, parameter: torch.Tensor) -> torch.Tensor:
        if parameter.grad is None:
            return torch.zeros(len(self._index(name, parameter)), dtype=torch.float64)
        return self._looked_at(name, parameter.grad)

    def _looked_at(self, parameter: str, tensor: torch.Tensor) -> torch.Tensor:
        index = self._index(parameter, tensor)
        return numbers_at(tensor.detach(), index.to(tensor.device)).cpu().double()

    def _index(self, parameter: str, tensor: torch.Tensor) -> torch.Tensor:
        """Return the coordinates to look at, the same in every process; a complex number has two."""
        if parameter not in self._indices:
            generator = torch.Generator().manual_seed(zlib.crc32(parameter.encode()))
            elements = _elements(tensor)
            self._indices[parameter] = (
                torch.arange(elements)
                if elements <= self._most
                else torch.randint(elements, (self._most,), generator=generator)
            )
        return self._indices[parameter]


def _elements(tensor: torch.Tensor) -> int:
    """Return how many real numbers a tensor consists of."""
    return tensor.numel() * (2 if tensor.is_complex() else 1)


def _is_short(values: torch.Tensor) -> bool:
    """Whether there are numbers, none of which needs more than 12 significant bits.

    bfloat16 has 8, float16 and TF32 11. That a number of float32 needs no more happens by chance once in 4,096 times.
    """
    found = values[values != 0].float()
    return bool(len(found)) and not bool((found.view(torch.int32) & 0xFFF).any())


def _put(remembered: dict[Any, Any], kept: dict[Any, Any], device: torch.device) -> None:
    """Make what the optimizer remembers of one parameter be what was kept of it."""
    for key, value in kept.items():
        now = remembered.get(key)
        if isinstance(value, torch.Tensor) and isinstance(now, torch.Tensor):
            now.copy_(value)
        elif isinstance(value, torch.Tensor):
            remembered[key] = value.clone() if value.dim() == 0 else value.to(device, copy=True)
        else:
            remembered[key] = value


def _copied(value: Any) -> Any:
    return value.detach().to("cpu", copy=True) if isinstance(value, torch.Tensor) else value


def is_plain(value: Any) -> bool:
    """Whether `TrainedState.copy` keeps what an optimizer remembers under one key."""
    return value is None or isinstance(value, (bool, int, float, torch.Tensor))


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
