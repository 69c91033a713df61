"""The updates that steps make: of parameters, of what the optimizer remembers, of buffers; again from a kept state."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.modules.batchnorm import _NormBase

from autoaccel.records.rounding import Kind
from autoaccel.runtime.data import Drawn
from autoaccel.runtime.paced import Inspectable
from autoaccel.runtime.randomness import random_states, seed_all

_COORDINATES = 200_000
"""That are looked at in all, drawn at random: with all of a large model's, its updates would take more memory than the
training itself. Sums over so many are as good as exact beside what decides, factors."""

_MIN_OF_ONE, _MAX_OF_ONE = 256, 4096  # coordinates of a tensor

_MAX_LEFT_OUT = 8  # steps in a row that a float16 scaler may leave out: from 65,536 down to 256

Values = dict[str, torch.Tensor]
"""Name -> what was looked at of a tensor: coordinates, in float64, in the main memory."""


class Tensor(NamedTuple):
    """What a step changes."""

    kind: Kind
    parameter: str  # it is, or belongs to; of a buffer its own name
    value: torch.Tensor


class Updates:
    """Steps of a training whose random numbers are numbered, and what they change.

    Two processes that ask for the same in the same order make the same steps on the same batches with the same random
    numbers, whatever their settings draw. No step is made twice for a schedule: all that are made from a kept state
    leave the training where it was.
    """

    def __init__(self, loop: Inspectable) -> None:
        """Watch a training that has made no step, and find out what its first one takes.

        That compiles what is compiled, and lets float16 find its scale; then the training begins anew.
        """
        self._loop = loop
        named = {id(parameter): name for name, parameter in loop.plain_model.named_parameters()}
        trained = [parameter for group in loop.optimizer.param_groups for parameter in group["params"]]
        self._parameters: dict[str, torch.Tensor] = {
            named.get(id(parameter), f"parameter {place}"): parameter for place, parameter in enumerate(trained)
        }
        each = _COORDINATES // max(1, len(trained))
        self._most = max(_MIN_OF_ONE, min(_MAX_OF_ONE, each))
        self._indices: dict[str, torch.Tensor] = {}
        self._numbers = 0
        self.gradients: Values = {}
        """Of the last step, as the optimizer has got them; zero where a parameter got none."""
        beginning = self.state()
        self.draws_numbers = self._draws_numbers(beginning)
        """Whether a step draws random numbers from torch, as dropout does."""
        self.restore(beginning)

    def step(self) -> float:
        """Make the training's next step; return its loss."""
        seed_all(self._next_number())
        self._loop.step()
        return self._loop.last_loss

    def draw(self) -> tuple[int, list[Drawn]]:
        """Return the next step's batches, and the number of its random numbers; the training passes them over."""
        number = self._next_number()
        seed_all(number)
        return number, self._loop.next_step()

    def state(self) -> dict[str, Any]:
        """Return a copy of all that a step changes, in the main memory: tensors, numbers and None."""
        remembered = {
            name: {key: _copied(value) for key, value in self._remembered(parameter).items() if _is_plain(value)}
            for name, parameter in self._parameters.items()
            if self._remembered(parameter)
        }
        return {"model": {name: _copied(value) for name, value in self._of_model().items()}, "optimizer": remembered}

    def restore(self, state: dict[str, Any]) -> None:
        """Make all be what `state` has returned, here or in another process.

        In place: compiled code, and the optimizer, hold on to these tensors.
        """
        here = self._of_model()
        with torch.no_grad():
            for name, value in state["model"].items():
                here[name].copy_(value)
            for name, parameter in self._parameters.items():
                kept = state["optimizer"].get(name)
                if kept is None:
                    self._loop.optimizer.state.pop(parameter, None)
                else:
                    _put(self._loop.optimizer.state[parameter], kept, parameter.device)

    def update_from(self, state: dict[str, Any], number: int, batches: Sequence[Drawn]) -> Values:
        """Return what one step on these batches makes of a state; the training is left in what it becomes."""
        update: Values = {}
        for _ in range(1 + _MAX_LEFT_OUT):
            self.restore(state)
            before, learned = self._values(), self._loop.applied.state_dict()
            self._make_step(number, batches)
            after = self._values()
            update = {name: value - before[name] for name, value in after.items() if name in before}
            # A float16 scaler leaves out a step whose gradients are too large for it, and learns from that.
            moved = any(bool(update[name].any()) for name in self._parameters)
            if moved or self._loop.applied.state_dict() == learned:
                break
        return update

    def short(self) -> set[str]:
        """Return the names of tensors whose numbers all have few significant bits: that are kept in a short type."""
        return {name for name, value in self._values().items() if _is_short(value)}

    def kinds(self) -> dict[str, tuple[Kind, str, int]]:
        """Return of each name in an update its kind, the parameter it belongs to, and the elements of the tensor."""
        return {name: (one.kind, one.parameter, one.value.numel()) for name, one in self._tensors()}

    def units(self) -> Values:
        """Return of each running statistic by what a step moves it that finds it wrong by the scatter of its values.

        By a standard deviation a running mean, by itself a running variance, each times the momentum of the average:
        a normalisation divides by that deviation, so in this unit an error is what it makes of the layer's output.
        """
        found: Values = {}
        for name, module in self._loop.plain_model.named_modules():
            if isinstance(module, _NormBase) and module.running_mean is not None and module.running_var is not None:
                seen = int(module.num_batches_tracked or 0)
                momentum = 1 / (1 + seen) if module.momentum is None else module.momentum
                for key, power in (("running_mean", 0.5), ("running_var", 1.0)):
                    buffer = f"{name}.{key}" if name else key
                    found[buffer] = momentum * self._looked_at(buffer, module.running_var + module.eps) ** power
        return {name: unit for name, unit in found.items() if bool(unit.all())}

    def _draws_numbers(self, state: dict[str, Any]) -> bool:
        number, batches = self.draw()
        self.update_from(state, number, batches)
        after = random_states(self._loop.device)
        seed_all(number)
        fresh = random_states(self._loop.device)
        return any(not torch.equal(fresh[name], after[name]) for name in fresh if name not in ("python", "numpy"))

    def _make_step(self, number: int, batches: Sequence[Drawn]) -> None:
        """Make a step that the training's count and its schedule do not know of."""
        loop = self._loop
        kept = loop.scheduler, loop.steps_done, loop.samples_done, loop.phase_ended
        loop.scheduler, loop.phase_ended = None, self._note_gradients
        try:
            seed_all(number)
            for drawn in batches:
                loop.step_on(drawn.batch, drawn.piece)
        finally:
            loop.scheduler, loop.steps_done, loop.samples_done, loop.phase_ended = kept

    def _note_gradients(self, phase: str) -> None:
        if phase == "optimizer":  # they are cleared after it
            self.gradients = {
                name: torch.zeros(len(self._index(name, parameter)), dtype=torch.float64)
                if parameter.grad is None
                else self._looked_at(name, parameter.grad)
                for name, parameter in self._parameters.items()
            }

    def _of_model(self) -> dict[str, torch.Tensor]:
        """Return what is trained, and the model's buffers."""
        return {**self._parameters, **dict(self._loop.plain_model.named_buffers())}

    def _tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield what a step changes, by name; asked anew each time, for a step may put others in their places."""
        for name, parameter in self._parameters.items():
            yield name, Tensor("parameter", name, parameter)
            for key, value in self._remembered(parameter).items():
                if _is_floating(value) and value.shape == parameter.shape:
                    yield f"{name} ({key})", Tensor("state", name, value)
        for name, buffer in self._loop.plain_model.named_buffers():
            if _is_floating(buffer):
                yield name, Tensor("buffer", name, buffer)

    def _remembered(self, parameter: torch.Tensor) -> dict[Any, Any]:
        found = self._loop.optimizer.state.get(parameter, {})
        return found if isinstance(found, dict) else {}

    def _values(self) -> Values:
        return {name: self._looked_at(one.parameter, one.value) for name, one in self._tensors()}

    def _looked_at(self, parameter: str, tensor: torch.Tensor) -> torch.Tensor:
        dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
        index = self._index(parameter, tensor)
        return dense.reshape(-1)[index.to(tensor.device)].cpu().double()

    def _index(self, parameter: str, tensor: torch.Tensor) -> torch.Tensor:
        """Return the coordinates to look at, the same in every process."""
        if parameter not in self._indices:
            generator = torch.Generator().manual_seed(zlib.crc32(parameter.encode()))
            elements = tensor.numel()
            self._indices[parameter] = (
                torch.arange(elements)
                if elements <= self._most
                else torch.randint(elements, (self._most,), generator=generator)
            )
        return self._indices[parameter]

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers


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


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, torch.Tensor))


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
