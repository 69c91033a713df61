"""torch.compile of the whole model."""

from __future__ import annotations

import torch
from torch import nn

from autoaccel.records.settings import Value
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError


class Compile(Effect):
    """Compile the model; the module given stays as it is, so evaluation needs no compilation of its own."""

    def __init__(self, value: Value) -> None:
        self.mode = str(value)

    def model(self, model: nn.Module) -> nn.Module:
        if self.mode == "off":
            return model
        # Not model.compile(): that captures nothing, silently, where the class is one of torch.nn's own.
        compiled: nn.Module = torch.compile(model, mode=self.mode)  # type: ignore[assignment]  # declared a function
        return compiled

    def check(self) -> str:
        if self.mode == "off":
            return ""
        from torch._dynamo.utils import counters

        graphs = counters["stats"]["unique_graphs"]
        if not graphs:
            raise IneffectiveError("torch.compile captured no graph; the step may not call the model itself")
        return f"{graphs} graphs compiled"
