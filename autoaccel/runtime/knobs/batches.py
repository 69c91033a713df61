"""How many samples a step rests on, and what follows for the learning rate."""

from __future__ import annotations

import math

import torch

from autoaccel.runtime.knobs.effect import Effect, IneffectiveError


class BatchFactor(Effect):
    """Another batch size."""

    def batch_factor(self) -> float:
        return float(self.value)


class LearningRateRule(Effect):
    """The learning rate follows the batch size."""

    @property
    def factor(self) -> float:
        """Samples of a step, over those of a step of the training's own."""
        return float(self.settings.get("optimizer.batch_factor", 1.0))

    def rate_factor(self) -> float:
        return {"none": 1.0, "linear": self.factor, "sqrt": math.sqrt(self.factor)}[str(self.value)]

    def check(self) -> str:
        if self.is_off:
            return ""
        if self.rate_factor() == 1.0:
            raise IneffectiveError("the batch size is the training's own")
        return f"steps are made with {self.rate_factor():.3g} times the learning rate"


class Accumulation(Effect):
    """The gradients of several parts of a batch add up before the optimizer's step."""

    passes = 0

    def parts(self) -> int:
        return int(self.value)

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        self.passes += 1
        return loss

    def check(self) -> str:
        return "" if self.is_off else f"{self.passes} backward passes, {self.value} for each step"
