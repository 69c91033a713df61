"""Memory layout of images: what flows through convolutions, not what they hold.

A convolution answers in the format of its input, so its weights may stay as they are: and so do their gradients, the
state of their optimizer, the buckets of DistributedDataParallel and checkpoints, which all go by the strides of
weights.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from autoaccel.runtime.knobs.effect import Effect, IneffectiveError


class ChannelsLast(Effect):
    """Let 4-d tensors have channels last wherever a convolution reads them in training.

    By hooks that are there from a forward pass to the update: what is saved, copied, exported or compiled as a script
    between two steps is the user's own model.
    """

    switches = True
    convolutions = 0
    are_hooked = False
    has_hooked = False

    def begin(self) -> None:
        self._found: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._hooks: list[RemovableHandle] = []

    def model(self, model: nn.Module) -> nn.Module:
        if not self.is_off:
            self._found.update(one for one in model.modules() if isinstance(one, (nn.Conv2d, nn.ConvTranspose2d)))
            self.convolutions = max(self.convolutions, len(self._found))
            self.are_hooked = False
        return model

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        if not self.is_off and isinstance(optimizer, torch.optim.Optimizer):
            self._hooks.append(optimizer.register_step_pre_hook(self._unhook))
        return optimizer

    def withdraw(self) -> None:
        self._unhook()
        for hook in self._hooks:
            hook.remove()

    def forward(self) -> AbstractContextManager[Any]:
        return super().forward() if self.is_off else self._hooked()

    @contextmanager
    def _hooked(self) -> Iterator[None]:
        if not self.are_hooked:
            self.are_hooked = self.has_hooked = True
            for convolution in self._found:
                convolution._forward_pre_hooks.setdefault(_KEY, _CONVERTS)
        yield  # and stay beyond: activation checkpoints are computed again in the backward pass

    def _unhook(self, *_: Any) -> None:
        if self.are_hooked:
            self.are_hooked = False
            for convolution in self._found:
                convolution._forward_pre_hooks.pop(_KEY, None)

    def batch(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if self.is_off else with_channels_last(tensor)

    def check(self) -> str:
        if self.is_off:
            return ""
        if not self.convolutions:
            raise IneffectiveError("the model has no convolution over images")
        if not self.has_hooked:
            raise IneffectiveError("no forward pass was made within applied.forward()")
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


_CONVERTS = _Converts()
_KEY: Any = "autoaccel: channels last"  # beside the numbers of others' hooks


def with_channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of numbers, samples x channels x height x width, with channels last; any other as it is."""
    if tensor.dim() != 4 or tensor.layout is not torch.strided:
        return tensor
    if tensor.shape[1] == 1 and tensor.stride(1) != 1 and tensor.is_contiguous():
        # Of one channel the memory is the same in both formats: strides alone tell a convolution how to answer.
        return tensor.squeeze(1).unsqueeze(-1).movedim(-1, 1)
    return tensor.contiguous(memory_format=torch.channels_last)
