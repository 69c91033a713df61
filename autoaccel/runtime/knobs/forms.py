"""Another form of an optimizer's update, in place: all that its user sees of it besides stays as they have made it."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

_UNSCALES = "_step_supports_amp_scaling"
"""By which an optimizer tells a gradient scaler that its step unscales gradients, and leaves out infinite ones."""


def has_form(optimizer: torch.optim.Optimizer, form: str) -> bool:
    """Whether the optimizer can update what it has in this form: "fused" or "foreach"."""
    kind = torch_class(optimizer)
    if kind is None or form not in inspect.signature(kind).parameters:
        return False
    # One that is differentiable has one form only.
    if any(form not in group or group.get("differentiable") for group in optimizer.param_groups):
        return False
    return all(_can_be(form, group) for group in optimizer.param_groups)


def _can_be(form: str, group: Mapping[str, Any]) -> bool:
    if form != "fused":
        # Of those with such a rate some refuse to begin with, others at their first step.
        return not isinstance(group.get("lr"), torch.Tensor) or bool(group.get("capturable"))
    if group.get("momentum") and group.get("dampening"):
        return False  # a momentum that begins later than others is not damped at first, which the kernel cannot do
    return all(
        parameter.is_floating_point() and (parameter.grad is None or parameter.grad.layout is torch.strided)
        for parameter in group["params"]
    )


def torch_class(optimizer: torch.optim.Optimizer) -> type[torch.optim.Optimizer] | None:
    """Return which of torch's optimizers this is or derives from; None if it is none of them.

    It is not known where others decide on the form, nor what else they decide with it.
    """
    kinds = (kind for kind in type(optimizer).__mro__ if kind.__module__.startswith("torch.optim."))
    kind = next(kinds, None)
    return None if kind in (None, torch.optim.Optimizer) else kind


class OtherForm:
    """Keeps an optimizer in another form, whatever its user loads, and what it saves as it would be without."""

    def __init__(self, optimizer: torch.optim.Optimizer, forms: Mapping[str, bool | None], unscales: bool) -> None:
        """Switch the optimizer, in place: schedulers, hooks and the user's own code may refer to it already.

        Args:
            optimizer: Of a class of torch's that has the form, or derived from one.
            forms: What its groups are to say of each, None for torch's choice.
            unscales: Whether it may tell a gradient scaler that its step unscales gradients itself, where that is so.
                The user's own scaler would do more than before: pass scaled gradients on to hooks of the step, and
                count steps that are left out as made.
        """
        kind = torch_class(optimizer)
        assert kind is not None
        self._kind = kind
        known = inspect.signature(kind).parameters
        self.forms: dict[str, bool | None] = {name: value for name, value in forms.items() if name in known}
        self._unscales = unscales
        self._defaults = {name: optimizer.defaults.get(name) for name in self.forms}
        self._own: list[dict[str, Any]] = []  # what the groups said, without us
        self.is_asked = inspect.unwrap(type(optimizer).step) is inspect.unwrap(kind.step)
        """Whether a step has asked its groups for the form; torch's own do."""
        self._was_laid_out = True
        # First of all hooks, so that those of the user meet what they would have met.
        self._hooks: list[RemovableHandle] = [
            optimizer.register_state_dict_post_hook(self._saved, prepend=True),
            optimizer.register_load_state_dict_post_hook(self._loaded),
        ]
        if not self.is_asked:
            self._hooks += [
                optimizer.register_step_pre_hook(self._watch),
                optimizer.register_step_post_hook(self._end_watch),
            ]
        if self.forms.get("fused"):
            self._hooks.append(optimizer.register_step_pre_hook(self._prepare))
        self._loaded(optimizer)

    def end(self, optimizer: torch.optim.Optimizer) -> None:
        """Let the optimizer update as it would without us, from its next step on; not to be called within one."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._turn(optimizer, self.forms, self._defaults, unscales=True)
        for group, own in zip(
            optimizer.param_groups, itertools.chain(self._own, itertools.repeat(self._defaults)), strict=False
        ):
            group.update(own)
        if self.forms.get("fused"):
            for group in optimizer.param_groups:
                if not _keeps_steps_beside(group):
                    for parameter in group["params"]:
                        if isinstance(state := optimizer.state.get(parameter), dict):
                            state.update(_with_steps_on_cpu(state))

    def _loaded(self, optimizer: torch.optim.Optimizer) -> None:
        """Switch the optimizer: a checkpoint brings the form that it was saved under, and perhaps other strides."""
        self._own = [{name: group[name] for name in self.forms if name in group} for group in optimizer.param_groups]
        if all(has_form(optimizer, name) for name, value in self.forms.items() if value):
            self._switch(optimizer)

    def _switch(self, optimizer: torch.optim.Optimizer) -> None:
        """Make the optimizer update in the other form.

        Its groups name the form that its step takes; whatever else the constructor decides is read off two small
        optimizers of the class.
        """
        self._turn(optimizer, {name: optimizer.defaults.get(name) for name in self.forms}, self.forms, self._unscales)
        for group in optimizer.param_groups:
            group.update(self.forms)
        if self.forms.get("fused"):
            for parameter, state in _states(optimizer):
                _lay_out(parameter, state)

    def _turn(
        self,
        optimizer: torch.optim.Optimizer,
        were: Mapping[str, bool | None],
        forms: Mapping[str, bool | None],
        unscales: bool,
    ) -> None:
        """Change what the constructor decides by these arguments, from what they were; groups aside."""
        # Of a class of its own: torch wraps the step of each class that has objects, so that the hooks of a subclass
        # that calls it would run twice.
        probe = type(self._kind.__name__, (self._kind,), {})
        before, after = (vars(probe([torch.zeros(1)], **each)) for each in (were, forms))
        if not unscales:
            after.pop(_UNSCALES, None)
        for name in (before.keys() | after.keys()) - {"defaults", "param_groups", "state"}:
            if name not in after:
                vars(optimizer).pop(name, None)
            elif name not in before or before[name] != after[name]:
                setattr(optimizer, name, after[name])
        optimizer.defaults.update(forms)

    def _saved(self, optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
        """Let what is saved say what it would say without us: it may be loaded where the form is none, or is wrong.

        On CPUs a fused step that finds weights and moments in different memory formats gives weights the moments of
        others.
        """
        for group, own in zip(
            saved["param_groups"], itertools.chain(self._own, itertools.repeat(self._defaults)), strict=False
        ):
            group.update(own)
        if not self.forms.get("fused"):
            return
        beside = {number for group in saved["param_groups"] if _keeps_steps_beside(group) for number in group["params"]}
        saved["state"] = {
            number: state if number in beside or not isinstance(state, dict) else _with_steps_on_cpu(state)
            for number, state in saved["state"].items()
        }

    def _prepare(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Put all that the step reads as fused kernels take it to be.

        Gradients that were not accumulated, as those of `torch.autograd.grad`, have whatever strides their operators
        have left; and weights may have changed theirs.
        """
        if torch.compiler.is_compiling():
            return
        is_laid_out = True
        for group in optimizer.param_groups:
            momentum = group.get("momentum") and "dampening" in group
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None:
                    continue
                if not (parameter.is_contiguous() and gradient.is_contiguous()):
                    is_laid_out = False
                    if gradient.stride() != parameter.stride() and gradient.layout is torch.strided:
                        parameter.grad = _like(parameter, gradient)
                # One whose first gradient comes later than those of others: the kernel takes all or none.
                if momentum and optimizer.state[parameter].get("momentum_buffer") is None:
                    optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter, requires_grad=False)
        if not (is_laid_out and self._was_laid_out):
            for parameter, state in _states(optimizer):
                _lay_out(parameter, state)
        self._was_laid_out = is_laid_out

    def _watch(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Let the groups note what a step asks them for that is not torch's own, until it has asked for the form."""
        if not self.is_asked:
            groups = optimizer.param_groups
            groups[:] = [group if isinstance(group, _WatchedGroup) else _WatchedGroup(group) for group in groups]

    def _end_watch(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Put the groups back, which the user's own code may hold on to."""
        form = next(iter(self.forms))
        for place, group in enumerate(optimizer.param_groups):
            if isinstance(group, _WatchedGroup):
                self.is_asked |= form in group.asked
                group.own.clear()
                group.own.update(group)
                optimizer.param_groups[place] = group.own


class _WatchedGroup(dict[str, Any]):
    """A group that notes which of its options are asked for, in place of the user's own."""

    def __init__(self, own: dict[str, Any]) -> None:
        super().__init__(own)
        self.own = own
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        return super().__getitem__(name)


def _states(optimizer: torch.optim.Optimizer) -> Iterator[tuple[torch.Tensor, dict[str, Any]]]:
    return ((parameter, state) for parameter, state in optimizer.state.items() if isinstance(state, dict))


def _lay_out(parameter: torch.Tensor, state: dict[str, Any]) -> None:
    """Put the state of a parameter as fused kernels take it to be: its count of steps beside it, strides as its own.

    On CPUs these kernels go through parameter, gradient and state as through flat memory: of a state with other
    strides, as a checkpoint may bring it, each weight gets that of another (torch 2.13.0 and 2.15.0).
    """
    for name, value in state.items():
        if not isinstance(value, torch.Tensor):
            continue
        if name == "step":
            state[name] = value.to(parameter.device, torch.float32)
        elif value.shape == parameter.shape and value.stride() != parameter.stride():
            state[name] = _like(parameter, value)


def _like(parameter: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return a copy of a value of its shape with the strides of the parameter."""
    return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)


def _keeps_steps_beside(group: Mapping[str, Any]) -> bool:
    """Whether the count of steps lies beside each parameter, as its user has chosen the group."""
    return bool(group.get("fused") or group.get("capturable"))


def _with_steps_on_cpu(state: dict[str, Any]) -> dict[str, Any]:
    step = state.get("step")
    return {**state, "step": step.cpu()} if isinstance(step, torch.Tensor) else state
