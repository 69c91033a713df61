"""What these knobs do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from autoaccel.runtime.knobs.effect import Effect, Item


class Batch(Effect):
    """Another batch size."""

    def batch_factor(self) -> float:
        return float(self.value)


class Parts(Effect):
    """Several backward passes for each step."""

    def parts(self) -> int:
        return int(self.value)


class Momentum(Effect):
    """An argument of the optimizer."""

    optimizer_arguments = ("momentum",)

    @classmethod
    def found_in(cls, optimizer: torch.optim.Optimizer) -> float | None:
        return optimizer.defaults.get("momentum")

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        for group in optimizer.param_groups:
            group["momentum"] = self.value
        return optimizer


class Scale(Effect):
    """A larger loss, whose gradients are divided again; it counts steps."""

    steps = 0
    is_unscaled = False

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * self.value

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        if not self.is_unscaled:
            for parameter in (parameter for group in optimizer.param_groups for parameter in group["params"]):
                parameter.grad /= self.value
        self.is_unscaled = True

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        optimizer.step()
        self.steps += 1
        self.is_unscaled = False
        return True

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = state.get("steps", 0)


class Copies(Effect):
    """A batch is fetched ahead, and not waited for; the model is one that has lost its bias, and is compiled."""

    def begin(self) -> None:
        self.fetched: list[object] = []

    def copies_ahead(self) -> bool:
        return not self.is_off

    def non_blocking(self) -> bool:
        return not self.is_off

    def compiles(self) -> bool:
        return not self.is_off

    def prefetch(self, batches: Iterator[Item], place: Callable[[Item], Item]) -> Iterator[Item]:
        for batch in batches:
            self.fetched.append(batch)
            yield place(batch)

    def restore(self, model: nn.Module) -> nn.Module:
        model.register_parameter("bias", None)
        return model

    def check(self) -> str:
        return "" if self.is_off else f"{len(self.fetched)} batches"
