"""The form in which an optimizer computes its update."""

from __future__ import annotations

import inspect

import torch

from autoaccel.records.settings import Value
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError


def has_fused(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the optimizer's class can update in one fused kernel."""
    return "fused" in inspect.signature(type(optimizer)).parameters


class Fused(Effect):
    """One fused kernel for all parameters."""

    def __init__(self, value: Value) -> None:
        self.enabled = bool(value)
        self.rebuilt: torch.optim.Optimizer | None = None

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        if not self.enabled or not has_fused(optimizer):
            return optimizer
        # Rebuilt, not switched over: some classes decide on fused=True in their constructor.
        accepted = inspect.signature(type(optimizer)).parameters
        arguments = {name: value for name, value in optimizer.defaults.items() if name in accepted}
        arguments |= {"fused": True, "foreach": False} if "foreach" in accepted else {"fused": True}
        groups = [{**group, "fused": True, "foreach": False} for group in optimizer.param_groups]
        self.rebuilt = type(optimizer)(groups, **arguments)
        return self.rebuilt

    def check(self) -> str:
        if not self.enabled:
            return ""
        if self.rebuilt is None or not all(group.get("fused") for group in self.rebuilt.param_groups):
            raise IneffectiveError("the optimizer has no fused form")
        return f"fused {type(self.rebuilt).__name__}"
