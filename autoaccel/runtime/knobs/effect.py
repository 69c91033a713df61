"""Effect: what a knob does, against narrow points. The base does nothing; a knob overrides what it changes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn


class IneffectiveError(Exception):
    """A setting silently did nothing, so whatever was measured is not the setting."""


class Effect:
    """The effect of one knob at one value. Every method is called at most once per process, except in a step."""

    def process(self) -> None:
        """Change the process; called before anything is built."""

    def loader_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments for a torch DataLoader."""
        return arguments

    def model(self, model: nn.Module) -> nn.Module:
        """Return the module to call in training; it shares its parameters with the one given."""
        return model

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """Return the optimizer to use; it updates the same parameters."""
        return optimizer

    def batch(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor of a batch as the model should get it."""
        return tensor

    def forward(self) -> AbstractContextManager[Any]:
        """Return the context of each forward pass, loss included."""
        return nullcontext()

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss to call backward on."""
        return loss

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Make the optimizer's step and return True, or leave it to others and return False."""
        return False

    def check(self) -> str:
        """Return what shows, after the first steps, that the value took effect; empty if there is nothing to show.

        Raises:
            IneffectiveError: If it silently did nothing.
        """
        return ""
