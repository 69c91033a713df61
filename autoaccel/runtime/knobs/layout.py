"""Memory layout of images: what flows through convolutions, not what they hold.

A convolution answers in the format of its input, so its weights may stay as they are: and so do their gradients, the
state of their optimizer, the buckets of DistributedDataParallel and checkpoints, which all go by the strides of
weights.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from autoaccel.runtime.knobs.effect import Effect, IneffectiveError


class ChannelsLast(Effect):
    """Let 4-d tensors have channels last wherever a convolution reads them in training."""

    convolutions = 0

    def model(self, model: nn.Module) -> nn.Module:
        if not self.is_off:
            found = [module for module in model.modules() if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d))]
            for convolution in found:
                if not any(isinstance(hook, _Converts) for hook in convolution._forward_pre_hooks.values()):
                    convolution.register_forward_pre_hook(_Converts())
            self.convolutions += len(found)
        return model

    def batch(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if self.is_off else with_channels_last(tensor)

    def check(self) -> str:
        if self.is_off:
            return ""
        if not self.convolutions:
            raise IneffectiveError("the model has no convolution over images")
        return f"{self.convolutions} convolutions read images with channels last"


class _Converts:
    """Gives a convolution its input with channels last, while gradients are computed; what evaluates is as it was."""

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if not torch.is_grad_enabled() or not inputs or not isinstance(inputs[0], torch.Tensor):
            return None
        return (with_channels_last(inputs[0]), *inputs[1:])

    def __reduce__(self) -> tuple[Any, ...]:
        """Be a hook that does nothing wherever the module is copied or pickled to: there is none of ours there.

        As a hook, the `get` of an empty dictionary gives back the inputs.
        """
        return getattr, ({}, "get")


def with_channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of numbers, samples x channels x height x width, with channels last; any other as it is."""
    if tensor.dim() != 4 or tensor.layout is not torch.strided:
        return tensor
    if tensor.shape[1] == 1 and tensor.stride(1) != 1 and tensor.is_contiguous():
        # Of one channel the memory is the same in both formats: strides alone tell a convolution how to answer.
        return tensor.squeeze(1).unsqueeze(-1).movedim(-1, 1)
    return tensor.contiguous(memory_format=torch.channels_last)
