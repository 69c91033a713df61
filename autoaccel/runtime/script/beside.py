"""Updates computed beside those that a script makes: on its batches, from its states, under other settings too.

Settings that only round differently are judged by their updates (`statistics/rounding.py`). A training that goes on can
neither be put back nor be asked for a batch again; but what its model was called with, and what the loss makes of the
outputs, is at hand when its gradients are about to be computed. So a copy of the model computes its outputs once more,
under the settings; the gradient of the loss at these follows from that at the script's own and its derivative:

    gradient(outputs') = gradient(outputs) + Hessian (outputs' - outputs)

up to the square of their difference, where that is rounding. The copy's backward pass makes gradients of that, and a
copy of the optimizer an update. The script's model, optimizer and random numbers are as if nothing had been computed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from autoaccel.records.rounding import UpdateError, UpdatesCompared
from autoaccel.records.settings import Settings
from autoaccel.runtime.batches import tensors_of
from autoaccel.runtime.randomness import random_states, restore_random_states, same_random_numbers_after
from autoaccel.runtime.rounding import error_of
from autoaccel.runtime.script.install import Equipped
from autoaccel.runtime.script.switched import SwitchedSettings
from autoaccel.runtime.trained_state import TrainedState, Values
from autoaccel.runtime.updates import change

BATCHES = 3
"""At each point of the training, as where two processes are compared."""

Optimizers = Sequence[torch.optim.Optimizer]
Gradients = list[torch.Tensor | None]
"""One for each parameter of all optimizers, in their order."""


class CannotCompareError(Exception):
    """Updates cannot be computed beside this training's own; says why."""


class Call(NamedTuple):
    """A call of a model in training."""

    equipped: Equipped
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    random: Mapping[str, Any]  # the generators before it
    autocast: torch.dtype | None  # that the script itself had switched on
    plain: nn.Module  # a copy from before it
    outputs: Any
    versions: list[int]  # of the tensors that it was given and has returned


class Beside:
    """Computes the updates of some steps once more, under the script's own settings and under others.

    Whatever goes wrong in that is none of the script's business; `step_ended` says it.
    """

    def __init__(self, switched: SwitchedSettings, optimizers: Optimizers, settings: Settings, points: int) -> None:
        """Begin before a step.

        Args:
            switched: The script's settings, which hold meanwhile.
            optimizers: That make its updates, in their order; one that makes several stands there as often.
            settings: To be judged.
            points: Of the training, at which they are.
        """
        self._switched = switched
        self._wanted_points = points
        self._optimizers = optimizers
        self._settings = settings
        self._why_not = ""
        self._calls: list[Call] = []
        self._computed: tuple[Gradients, Gradients] | None = None
        self._got: dict[int, Gradients] = {}  # by the place of an optimizer
        self._point: _Point | None = None
        self._errors: list[UpdateError] = []
        self._losses: list[float] = []
        self._loss = 0.0  # of the parts of the step's batch so far
        self._points = 0
        self._draws = False
        self._finite = True
        if len(set(map(id, optimizers))) != len(optimizers):
            self._why_not = "an optimizer makes several updates in a step"
        elif torch.distributed.is_available() and torch.distributed.is_initialized():
            self._why_not = "several processes train together"
        else:
            switched.calls = self._record

    def _record(self, equipped: Equipped, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call of the script's, and keep what it takes to make it once more."""
        module, device = equipped.module, self._switched.device
        plain: nn.Module | None = None
        random = random_states(device)
        is_short = torch.is_autocast_enabled(device.type)
        autocast = torch.get_autocast_dtype(device.type) if is_short else None
        with self._told():
            if any(one._forward_hooks or one._backward_hooks for one in module.modules()):
                raise CannotCompareError("the model has hooks")
            plain = _copied(module)
        outputs = equipped.compute(args, kwargs)
        if plain is not None:
            tensors = [*tensors_of(args), *tensors_of(kwargs), *tensors_of(outputs)]
            versions = [one._version for one in tensors]
            self._calls.append(Call(equipped, args, kwargs, random, autocast, plain, outputs, versions))
        return outputs

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Keep errors from the script: `step_ended` tells of them."""
        try:
            yield
        except Exception as error:
            self._why_not = self._why_not or (str(error) if isinstance(error, CannotCompareError) else repr(error))

    def backward_begins(self, loss: torch.Tensor) -> None:
        """Compute the gradients of this step beside the script, which is about to compute them itself."""
        calls, self._calls = self._calls, []
        if not self._why_not:
            with self._told():
                self._compute(calls, loss)

    def _compute(self, calls: list[Call], loss: torch.Tensor) -> None:
        if len(calls) != 1 or loss.numel() != 1:
            raise CannotCompareError("the gradients of a loss do not come from one call of a model")
        call = calls[0]
        tensors = [*tensors_of(call.args), *tensors_of(call.kwargs), *tensors_of(call.outputs)]
        if [one._version for one in tensors] != call.versions:
            raise CannotCompareError("what the model was given, or has returned, was changed afterwards")
        outputs = [one for one in tensors_of(call.outputs) if one.requires_grad]
        at_outputs = torch.autograd.grad(loss, outputs, create_graph=True, retain_graph=True, allow_unused=True)
        own = self._gradients(call, outputs, at_outputs, self._switched.settings)
        others = self._gradients(call, outputs, at_outputs, self._settings)
        before = self._computed  # of the parts of the step's batch that came first
        self._computed = (_sum(before[0], own), _sum(before[1], others)) if before is not None else (own, others)
        self._loss += float(loss.detach())

    def _gradients(
        self,
        call: Call,
        outputs: Sequence[torch.Tensor],
        at_outputs: Sequence[torch.Tensor | None],
        settings: Settings,
    ) -> Gradients:
        """Return the gradients of the optimizer's parameters, with the model's call made under these settings."""
        device = self._switched.device
        module = _copied(call.plain)
        autocast = torch.autocast(device.type, dtype=call.autocast, enabled=call.autocast is not None)
        with self._switched.beside(settings) as applied, same_random_numbers_after(device), autocast:
            restore_random_states(call.random, device)
            found = [one for one in tensors_of(applied.compute(module, call.args, call.kwargs)) if one.requires_grad]
            self._draws |= has_drawn_since(call.random, device)
            if len(found) != len(outputs):
                raise CannotCompareError("the model returns other things when it is called again")
            differences = [new.detach() - old.detach() for new, old in zip(found, outputs, strict=True)]
            corrected = _corrected(outputs, at_outputs, differences)
            used = [(one, gradient) for one, gradient in zip(found, corrected, strict=True) if gradient is not None]
            names = {id(one): name for name, one in call.equipped.module.named_parameters()}
            of_copy = dict(module.named_parameters())
            inputs = [of_copy[names[id(one)]] if id(one) in names else None for one in _parameters(self._optimizers)]
            asked = [one for one in inputs if one is not None and one.requires_grad]
            grads = torch.autograd.grad([one for one, _ in used], asked, [one for _, one in used], allow_unused=True)
        of_input = {id(one): grad for one, grad in zip(asked, grads, strict=True)}
        return [None if one is None else of_input.get(id(one)) for one in inputs]

    def update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """Keep the gradients that the script's own update is made of."""
        for place, one in enumerate(self._optimizers):
            if one is optimizer:
                grads = (parameter.grad for parameter in _parameters([one]))
                self._got[place] = [None if grad is None else grad.detach().clone() for grad in grads]

    def step_ended(self) -> UpdatesCompared | str | None:
        """Make updates of the step's gradients; return what all say once there are enough, or why they cannot."""
        compared: UpdatesCompared | None = None
        if not self._why_not:
            with self._told():
                compared = self._add()
        if self._why_not or compared is not None:
            self.end()
        return self._why_not or compared

    def _add(self) -> UpdatesCompared | None:
        computed, self._computed = self._computed, None
        if computed is None:
            raise CannotCompareError("a step computes its gradients otherwise than by backward()")
        if self._point is None:
            self._point = _Point(self._optimizers)
        self._losses.append(self._loss)
        self._loss = 0.0
        own, others = computed
        got = [one for place in sorted(self._got) for one in self._got[place]]
        scale = _scale(got, own)
        with self._switched.beside(self._settings) as applied:
            self._point.add(got, _times(own, scale), _times(others, scale), applied)
        if self._point.batches < BATCHES:
            return None
        self._points += 1
        errors = self._point.errors(self._points)
        self._finite &= all(math.isfinite(one.error) for one in errors)
        self._errors += errors
        self._point = None
        if self._points < self._wanted_points:
            return None
        return UpdatesCompared(
            finite=self._finite,
            draws_numbers=self._draws,
            shortened=(),
            batches=BATCHES,
            errors=tuple(self._errors) if self._finite else (),
            baseline_losses=tuple(self._losses),
            losses=tuple(self._losses),
        )

    def end(self) -> None:
        """Compute nothing any more."""
        self._switched.calls = None


class _Point:
    """Updates of some batches, all made from one state of the optimizers and of what they update."""

    def __init__(self, optimizers: Optimizers) -> None:
        self._own: Optimizers = _copied(list(optimizers))
        self._others: Optimizers = _copied(list(optimizers))
        self._states = TrainedState([], self._own), TrainedState([], self._others)
        self._start = self._states[0].copy()
        self._is_equipped = False
        self._made: list[Values] = []
        self._made_by_others: list[Values] = []
        self._gradients: list[Values] = []
        self._again: Values = {}

    @property
    def batches(self) -> int:
        return len(self._made)

    def add(self, got: Gradients, own: Gradients, others: Gradients, applied: Any) -> None:
        if not self._is_equipped:
            for optimizer in self._others:
                applied.optimizer(optimizer)
            self._is_equipped = True
        state = self._states[0]
        self._again = self._update(0, own)
        self._made.append(self._update(0, got))
        self._gradients.append(state.gradients(list(state.parameters)))
        self._made_by_others.append(self._update(1, others))

    def _update(self, which: int, gradients: Gradients) -> Values:
        state, optimizers = self._states[which], (self._own, self._others)[which]
        state.restore(self._start)
        for parameter, gradient in zip(_parameters(optimizers), gradients, strict=True):
            parameter.grad = None if gradient is None else gradient.clone()
        before = state.values()
        for optimizer in optimizers:
            optimizer.step()
        return change(before, state.values())

    def errors(self, point: int) -> list[UpdateError]:
        state = self._states[0]
        kinds = state.kinds()
        names = [name for name in self._made[0] if name in kinds and name in self._made_by_others[0]]
        kept = {
            "updates": {name: torch.stack([one[name] for one in self._made]) for name in names},
            "again": self._again,
            "gradients": {name: torch.stack([one[name] for one in self._gradients]) for name in self._gradients[0]},
            "units": {},
            "kinds": kinds,
            "squares": sorted(state.squares()),
        }
        others = {name: torch.stack([one[name] for one in self._made_by_others]) for name in names}
        found = (error_of(name, point, kept, others[name]) for name in names)
        return [one for one in found if one is not None]


def _copied(thing: Any) -> Any:
    try:
        return copy.deepcopy(thing)
    except Exception as error:
        raise CannotCompareError(f"{type(thing).__name__} cannot be copied") from error


def _parameters(optimizers: Optimizers) -> list[torch.Tensor]:
    return [one for optimizer in optimizers for group in optimizer.param_groups for one in group["params"]]


def _corrected(
    outputs: Sequence[torch.Tensor], at_outputs: Sequence[torch.Tensor | None], differences: Sequence[torch.Tensor]
) -> list[torch.Tensor | None]:
    """Return the gradient of the loss at outputs that differ from the script's own by so little."""
    moved = [(one, difference) for one, difference in zip(at_outputs, differences, strict=True)
             if one is not None and one.requires_grad]  # fmt: skip
    second: Sequence[torch.Tensor | None] = [None] * len(outputs)
    if moved:
        # The Hessian is symmetric: of this product with the differences, the gradient is the one that is wanted.
        second = torch.autograd.grad(
            [one for one, _ in moved], outputs, [one for _, one in moved], retain_graph=True, allow_unused=True
        )
    return [
        None if one is None else one.detach() if more is None else one.detach() + more
        for one, more in zip(at_outputs, second, strict=True)
    ]


def _scale(got: Gradients, own: Gradients) -> float:
    """Return by what the script has multiplied its gradients, as where it clips them: the factor that fits best."""
    pairs = [(one, other) for one, other in zip(got, own, strict=True) if one is not None and other is not None]
    squares = math.fsum(float(other.double().square().sum()) for _, other in pairs)
    products = math.fsum(float((one.double() * other.double()).sum()) for one, other in pairs)
    return products / squares if squares else 1.0


def _sum(gradients: Gradients, more: Gradients) -> Gradients:
    return [
        other if one is None else one if other is None else one + other
        for one, other in zip(gradients, more, strict=True)
    ]


def _times(gradients: Gradients, factor: float) -> Gradients:
    return [None if one is None else one * factor for one in gradients]


def has_drawn_since(states: Mapping[str, Any], device: torch.device) -> bool:
    """Whether torch's generators have other states than these."""
    now = random_states(device)
    return any(not torch.equal(now[name], states[name]) for name in now if name not in ("python", "numpy"))
