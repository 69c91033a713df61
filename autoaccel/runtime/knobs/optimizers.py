"""The form in which an optimizer computes its update."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from autoaccel.runtime.knobs.effect import Effect, IneffectiveError


def has_form(optimizer: torch.optim.Optimizer, form: str) -> bool:
    """Whether the optimizer can update in this form: "fused" or "foreach"."""
    kind = _torch_class(optimizer)
    if kind is None or form not in inspect.signature(kind).parameters:
        return False
    # One that is differentiable has one form only.
    return all(form in group and not group.get("differentiable") for group in optimizer.param_groups)


def _torch_class(optimizer: torch.optim.Optimizer) -> type[torch.optim.Optimizer] | None:
    """Return which of torch's optimizers this is or derives from; None if it is none of them.

    It is not known where others decide on the form, nor what else they decide with it.
    """
    kinds = (kind for kind in type(optimizer).__mro__ if kind.__module__.startswith("torch.optim."))
    kind = next(kinds, None)
    return None if kind in (None, torch.optim.Optimizer) else kind


def _switch(
    optimizer: torch.optim.Optimizer, kind: type[torch.optim.Optimizer], forms: Mapping[str, bool | None]
) -> None:
    """Make the optimizer, which is of this class of torch's, update in other forms.

    It is changed in place, because schedulers, hooks and the user's own code may refer to it already. Its groups name
    the form that its step takes; whatever else the constructor decides is read off two small optimizers of the class.
    """
    known = inspect.signature(kind).parameters
    wanted: dict[str, Any] = {name: value for name, value in forms.items() if name in known}
    # Of a class of its own: torch wraps the step of each class that has objects, so that the hooks of a subclass that
    # calls it would run twice.
    probe = type(kind.__name__, (kind,), {})
    before, after = (
        vars(probe([torch.zeros(1)], **each))
        for each in ({name: optimizer.defaults.get(name) for name in wanted}, wanted)
    )
    for name in (before.keys() | after.keys()) - {"defaults", "param_groups", "state"}:
        if name not in after:
            vars(optimizer).pop(name, None)
        elif name not in before or before[name] != after[name]:
            setattr(optimizer, name, after[name])
    optimizer.defaults.update(wanted)
    for group in optimizer.param_groups:
        group.update(wanted)
    if wanted.get("fused"):
        _lay_out(optimizer)


def _lay_out(optimizer: torch.optim.Optimizer) -> None:
    """Put the state of each parameter as fused kernels take it to be: its count of steps beside it, strides as its own.

    On CPUs these kernels go through parameter, gradient and state as through flat memory: of a state with other
    strides, as a checkpoint may bring it, each weight gets that of another (torch 2.13.0 and 2.15.0).
    """
    for parameter, state in optimizer.state.items():
        for name, value in state.items() if isinstance(state, dict) else ():
            if not isinstance(value, torch.Tensor):
                continue
            if name == "step":
                state[name] = value.to(parameter.device, torch.float32)
            elif value.shape == parameter.shape and value.stride() != parameter.stride():
                state[name] = torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)


class _Form(Effect):
    """The groups of an optimizer in other forms."""

    optimizer_arguments = ("fused", "foreach")

    switched: torch.optim.Optimizer | None = None
    wanted: Mapping[str, bool | None] = MappingProxyType({})

    def forms(self, optimizer: torch.optim.Optimizer) -> dict[str, bool | None]:
        """Return what the groups are to say of each form, None for torch's choice; empty to leave them as they are."""
        raise NotImplementedError

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        forms = self.forms(optimizer)
        kind = _torch_class(optimizer)
        if kind is None or not forms or not has_form(optimizer, next(iter(forms))):
            return optimizer
        _switch(optimizer, kind, forms)
        if optimizer is not self.switched:
            # A checkpoint brings the form that it was saved under, and perhaps the strides of another.
            optimizer.register_load_state_dict_post_hook(lambda loaded: _switch(loaded, kind, forms))
        if inspect.unwrap(type(optimizer).step) is not inspect.unwrap(kind.step):
            optimizer.param_groups[:] = [_WatchedGroup(group) for group in optimizer.param_groups]
        self.switched, self.wanted = optimizer, forms
        return optimizer

    def check(self) -> str:
        if self.switched is None:
            if self.is_off:
                return ""
            raise IneffectiveError(f"the optimizer has no {self.name.partition('.')[2]} form")
        form, value = next(iter(self.wanted.items()))
        groups = self.switched.param_groups
        if any(group.get(form) is not value for group in groups):
            raise IneffectiveError(f"something has changed {form} in the optimizer's groups")
        if all(isinstance(group, _WatchedGroup) and form not in group.asked for group in groups):
            raise IneffectiveError(f"{type(self.switched).__name__} has its own step, which does not use this form")
        return f"{type(self.switched).__name__} {self.words()}"

    def words(self) -> str:
        """Return how it updates, for people."""
        raise NotImplementedError


class _WatchedGroup(dict[str, Any]):
    """A group that notes which of its options are asked for, by a step that is not torch's own."""

    def __init__(self, group: dict[str, Any]) -> None:
        super().__init__(group)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        return super().__getitem__(name)


class Fused(_Form):
    """One fused kernel for all parameters."""

    @classmethod
    def found_in(cls, optimizer: torch.optim.Optimizer) -> bool | None:
        is_fused = has_form(optimizer, "fused") and all(group["fused"] for group in optimizer.param_groups)
        return True if is_fused else None

    def forms(self, optimizer: torch.optim.Optimizer) -> dict[str, bool | None]:
        if not self.is_off:
            return {"fused": True, "foreach": False}
        return {"fused": None} if any(group.get("fused") for group in optimizer.param_groups) else {}

    def words(self) -> str:
        return "not fused" if self.is_off else "fused"


class Foreach(_Form):
    """One operator after another over all parameters, or one parameter after another."""

    @classmethod
    def found_in(cls, optimizer: torch.optim.Optimizer) -> str | None:
        if Fused.found_in(optimizer) or not has_form(optimizer, "foreach"):
            return None
        forms = {group["foreach"] for group in optimizer.param_groups}
        if len(forms) != 1 or None in forms:
            return None  # torch chooses, for some groups at least
        return "on" if forms.pop() else "off"

    def forms(self, optimizer: torch.optim.Optimizer) -> dict[str, bool | None]:
        if not self.is_off:
            return {"foreach": self.value == "on", "fused": None}
        groups = optimizer.param_groups
        if all(group.get("foreach") is None or group.get("fused") for group in groups):
            return {}
        return {"foreach": None}

    def words(self) -> str:
        return {"on": "by operator", "off": "by parameter"}.get(str(self.value), "as torch chooses")
