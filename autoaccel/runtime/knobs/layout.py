"""Memory layout of images and convolution weights."""

from __future__ import annotations

import torch
from torch import nn

from autoaccel.runtime.knobs.effect import Effect, IneffectiveError


class ChannelsLast(Effect):
    """Store 4-d tensors with channels last."""

    converted = 0

    def model(self, model: nn.Module) -> nn.Module:
        if not self.is_off:
            model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
            weights = [parameter for parameter in model.parameters() if parameter.dim() == 4]
            self.converted += sum(weight.is_contiguous(memory_format=torch.channels_last) for weight in weights)
        return model

    def batch(self, tensor: torch.Tensor) -> torch.Tensor:
        if not self.is_off and tensor.dim() == 4:
            return tensor.contiguous(memory_format=torch.channels_last)
        return tensor

    def check(self) -> str:
        if self.is_off:
            return ""
        if not self.converted:
            raise IneffectiveError("no weight of the model is stored with channels last")
        return f"{self.converted} weights are stored with channels last"
