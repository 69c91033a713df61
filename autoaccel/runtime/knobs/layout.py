"""Memory layout of images and convolution weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from autoaccel.records.settings import Value
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError


class ChannelsLast(Effect):
    """Store 4-d tensors with channels last."""

    def __init__(self, name: str, settings: Mapping[str, Value], device: torch.device) -> None:
        super().__init__(name, settings, device)
        self.converted = 0

    def model(self, model: nn.Module) -> nn.Module:
        if self.value:
            model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
            weights = [parameter for parameter in model.parameters() if parameter.dim() == 4]
            self.converted = sum(weight.is_contiguous(memory_format=torch.channels_last) for weight in weights)
        return model

    def batch(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.value and tensor.dim() == 4:
            return tensor.contiguous(memory_format=torch.channels_last)
        return tensor

    def check(self) -> str:
        if not self.value:
            return ""
        if not self.converted:
            raise IneffectiveError("no weight of the model is stored with channels last")
        return f"{self.converted} weights are stored with channels last"
