"""How many samples a step rests on, and what follows for the learning rate."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from autoaccel.records.settings import Value
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError


class BatchFactor(Effect):
    """Another batch size; `Applied.batch_size` tells it to whoever makes the loader."""


class LearningRateRule(Effect):
    """The learning rate follows the batch size."""

    def __init__(self, name: str, settings: Mapping[str, Value], device: torch.device) -> None:
        super().__init__(name, settings, device)
        self.scaled = False

    @property
    def factor(self) -> float:
        """Samples of a step, over those of a step of the training's own."""
        return float(self.settings.get("optimizer.batch_factor", 1.0))

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        scale = {"none": 1.0, "linear": self.factor, "sqrt": math.sqrt(self.factor)}[str(self.value)]
        if scale != 1.0:
            for group in optimizer.param_groups:
                group["lr"] *= scale
            self.scaled = True
        return optimizer

    def check(self) -> str:
        if self.value == "none":
            return ""
        if not self.scaled:
            raise IneffectiveError("the batch size is the training's own")
        return "the learning rate follows the batch size"


class Accumulation(Effect):
    """The gradients of several parts of a batch add up before the optimizer's step."""

    def __init__(self, name: str, settings: Mapping[str, Value], device: torch.device) -> None:
        super().__init__(name, settings, device)
        self.parts = int(self.value)
        self.passes = 0

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return loss / self.parts if self.parts > 1 else loss

    def holds_back(self) -> bool:
        self.passes += 1
        return self.passes % self.parts != 0

    def check(self) -> str:
        return f"{self.passes} backward passes, {self.parts} for each step" if self.parts > 1 else ""
