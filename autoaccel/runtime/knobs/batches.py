"""How many samples a step rests on, and what follows for the learning rate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from autoaccel.records.settings import Value
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError


class BatchFactor(Effect):
    """Another batch size; `Applied.batch_size` tells it to whoever makes the loader."""


class LearningRateRule(Effect):
    """The learning rate follows the batch size."""

    @property
    def factor(self) -> float:
        """Samples of a step, over those of a step of the training's own."""
        return float(self.settings.get("optimizer.batch_factor", 1.0))

    def rate_factor(self) -> float:
        return {"none": 1.0, "linear": self.factor, "sqrt": math.sqrt(self.factor)}[str(self.value)]

    def check(self) -> str:
        if self.value == "none":
            return ""
        if self.rate_factor() == 1.0:
            raise IneffectiveError("the batch size is the training's own")
        return f"steps are made with {self.rate_factor():.3g} times the learning rate"


def scale_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Have every step of the optimizer made with so many times the learning rates of its groups.

    Only while a step is made: a schedule such as OneCycleLR sets learning rates of its own, and would undo what was
    set once. What it reads and sets stays the training's.

    Raises:
        IneffectiveError: If it is no torch optimizer, so that nobody can tell when it makes a step.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise IneffectiveError(
            f"{type(optimizer).__name__} is no torch.optim.Optimizer; its learning rates are its own"
        )
    own: list[list[Any]] = []  # for each call of step() that has begun: that of a subclass may call that of its base

    def scale(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        rates = [group["lr"] for group in optimizer.param_groups]
        if not own:
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * factor
        own.append(rates)

    def restore(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group, rate in zip(optimizer.param_groups, own.pop(), strict=True):
            group["lr"] = rate

    optimizer.register_step_pre_hook(scale)
    optimizer.register_step_post_hook(restore)


class Accumulation(Effect):
    """The gradients of several parts of a batch add up before the optimizer's step."""

    def __init__(self, name: str, settings: Mapping[str, Value], device: torch.device) -> None:
        super().__init__(name, settings, device)
        self.parts = int(self.value)
        self.passes = 0

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        self.passes += 1
        return loss / self.parts if self.parts > 1 else loss

    def holds_back(self) -> bool:
        return self.passes % self.parts != 0

    def check(self) -> str:
        return f"{self.passes} backward passes, {self.parts} for each step" if self.parts > 1 else ""
