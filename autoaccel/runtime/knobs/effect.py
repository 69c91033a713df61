"""Effect: what a knob does, against narrow points. The base does nothing; a knob overrides what it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
from torch import nn

from autoaccel.records.settings import Value
from autoaccel.records.trial import ModelSize

Item = TypeVar("Item")


class IneffectiveError(Exception):
    """A setting silently did nothing, so whatever was measured is not the setting."""


class Effect:
    """The effect of one knob at one value. Every method is called at most once per process, except in a step."""

    def __init__(self, name: str, settings: Mapping[str, Value], device: torch.device) -> None:
        """Make the effect of the knob of this name under some settings of a training on this device."""
        self.name = name
        self.value = settings[name]
        self.settings = settings
        self.device = device

    @classmethod
    def found(cls, device: torch.device) -> Value | None:
        """Return the value that this process has now, whoever has set it; None if that cannot be read off it.

        An effect is made only of a value that differs: what the user's own code has set is neither written nor checked.
        """
        return None

    def process(self) -> None:
        """Change the process."""

    def dataset(self, dataset: Any) -> Any:
        """Return the dataset to load from."""
        return dataset

    def loader_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments for a torch DataLoader."""
        return arguments

    def model(self, model: nn.Module) -> nn.Module:
        """Return the module to call in training; it shares its parameters with the one given."""
        return model

    def shrinks_after(self) -> int | None:
        """Return after how many epochs `shrink` is to be called; None: never."""
        return None

    def shrink(self, model: nn.Module, run: Callable[[nn.Module], torch.Tensor]) -> tuple[nn.Module, ModelSize] | None:
        """Return a smaller model in place of this one, and what that changed; None to leave it as it is.

        Args:
            model: The plain one, as trained so far.
            run: Returns the loss of a model on a batch.
        """
        return None

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """Return the optimizer to use; it updates the same parameters."""
        return optimizer

    def rate_factor(self) -> float:
        """Return by what the learning rate of each step is multiplied."""
        return 1.0

    def ahead(self, batches: Iterator[Item], place: Callable[[Item], Item]) -> Iterator[Item]:
        """Return the batches, perhaps placed on the device ahead of time; `place` does that."""
        return batches

    def batch(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor of a batch as the model should get it."""
        return tensor

    def forward(self) -> AbstractContextManager[Any]:
        """Return the context of each forward pass, loss included."""
        return nullcontext()

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss to call backward on."""
        return loss

    def holds_back(self) -> bool:
        """Whether the gradients so far are only a part of the step's; asked after each backward pass."""
        return False

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Make the gradients those of the loss itself, if `scale` has multiplied it; asked before each step.

        It may be asked several times before the same step.
        """

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Make the optimizer's step and return True, or leave it to others and return False."""
        return False

    def clear(self, optimizer: torch.optim.Optimizer) -> bool:
        """Clear the gradients and return True, or leave it to others and return False."""
        return False

    def check(self) -> str:
        """Return what shows, after some steps, that the value takes effect; empty if there is nothing to show.

        It is asked again after later steps: what an effect has seen once it remembers.

        Raises:
            IneffectiveError: If it silently did nothing.
        """
        return ""

    def state(self) -> dict[str, Any]:
        """Return what it has learned from the steps so far, and what a training that goes on must know."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` has returned."""
