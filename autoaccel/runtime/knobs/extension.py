"""Intel's extension for PyTorch."""

from __future__ import annotations

import torch
from torch import nn

from autoaccel.runtime.knobs.effect import Effect, IneffectiveError


class IpexOptimize(Effect):
    """`ipex.optimize`, in place, of model and optimizer together."""

    plain: nn.Module | None = None
    rearranged = 0

    def model(self, model: nn.Module) -> nn.Module:
        self.plain = model
        return model

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        if self.is_off or self.plain is None:
            return optimizer
        import intel_extension_for_pytorch as ipex

        dtype = torch.bfloat16 if self.value == "bfloat16" else torch.float32
        _, optimizer = ipex.optimize(self.plain, optimizer=optimizer, dtype=dtype, inplace=True)
        self.rearranged = sum("intel_extension" in type(module).__module__ for module in self.plain.modules())
        return optimizer

    def check(self) -> str:
        if self.is_off:
            return ""
        if not self.rearranged:
            raise IneffectiveError("no module was replaced by one of the extension's")
        return f"{self.rearranged} modules are the extension's"
