"""Shorter floating-point types in the forward pass."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from autoaccel.records.settings import Value
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Autocast(Effect):
    """Autocast to a shorter type; float16, whose small gradients vanish, with a gradient scaler."""

    def __init__(self, value: Value, device_type: str) -> None:
        self.device_type = device_type
        self.dtype = DTYPES.get(str(value))
        self.scaler = torch.amp.GradScaler(device_type) if self.dtype is torch.float16 else None

    def forward(self) -> AbstractContextManager[Any]:
        if self.dtype is None:
            return super().forward()
        return torch.autocast(self.device_type, dtype=self.dtype)

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return self.scaler.scale(loss) if self.scaler else loss

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        if self.scaler is None:
            return False
        self.scaler.step(optimizer)
        self.scaler.update()
        return True

    def check(self) -> str:
        if self.dtype is None:
            return ""
        square = torch.ones(8, 8, device=self.device_type)
        with self.forward():
            found = (square @ square).dtype
        if found != self.dtype:
            raise IneffectiveError(f"matrix products come out as {found}")
        return f"matrix products come out as {found}"
