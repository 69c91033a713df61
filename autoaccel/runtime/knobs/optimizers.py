"""The form in which an optimizer computes its update."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import torch

from autoaccel.records.settings import Value
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError


def has_form(optimizer: torch.optim.Optimizer, form: str) -> bool:
    """Whether the optimizer's class can update in this form: "fused" or "foreach"."""
    return form in inspect.signature(type(optimizer)).parameters


def _rebuilt(optimizer: torch.optim.Optimizer, forms: Mapping[str, bool]) -> torch.optim.Optimizer:
    """Return an optimizer like this one in other forms.

    Rebuilt, not switched over: some classes decide on the form in their constructor.
    """
    accepted = inspect.signature(type(optimizer)).parameters
    wanted = {name: value for name, value in forms.items() if name in accepted}
    arguments = {name: value for name, value in optimizer.defaults.items() if name in accepted}
    groups = [{**group, **wanted} for group in optimizer.param_groups]
    return type(optimizer)(groups, **{**arguments, **wanted})


class Fused(Effect):
    """One fused kernel for all parameters."""

    def __init__(self, name: str, settings: Mapping[str, Value], device: torch.device) -> None:
        super().__init__(name, settings, device)
        self.rebuilt: torch.optim.Optimizer | None = None

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        if not self.value or not has_form(optimizer, "fused"):
            return optimizer
        self.rebuilt = _rebuilt(optimizer, {"fused": True, "foreach": False})
        return self.rebuilt

    def check(self) -> str:
        if not self.value:
            return ""
        if self.rebuilt is None or not all(group.get("fused") for group in self.rebuilt.param_groups):
            raise IneffectiveError("the optimizer has no fused form")
        return f"fused {type(self.rebuilt).__name__}"


class Foreach(Effect):
    """One operator after another over all parameters, or one parameter after another."""

    def __init__(self, name: str, settings: Mapping[str, Value], device: torch.device) -> None:
        super().__init__(name, settings, device)
        self.rebuilt: torch.optim.Optimizer | None = None

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        if self.value == "auto" or not has_form(optimizer, "foreach"):
            return optimizer
        self.rebuilt = _rebuilt(optimizer, {"foreach": self.value == "on", "fused": False})
        return self.rebuilt

    def check(self) -> str:
        if self.value == "auto":
            return ""
        wanted = self.value == "on"
        if self.rebuilt is None or any(group.get("foreach") is not wanted for group in self.rebuilt.param_groups):
            raise IneffectiveError("the optimizer has no such form")
        return f"{type(self.rebuilt).__name__} {'by operator' if wanted else 'by parameter'}"
