"""Effect: what a knob does, against narrow points. The base does nothing; a knob overrides what it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, TypeVar

import torch
from torch import nn

from autoaccel.records.messages import ModelSize
from autoaccel.records.settings import Value
from autoaccel.space.knobs import Knob

Item = TypeVar("Item")


class IneffectiveError(Exception):
    """A setting silently did nothing, so whatever was measured is not the setting."""


class Effect:
    """The effect of one knob at one value. Every method is called at most once per process, except in a step.

    What it remembers are class attributes with their first value; what must be computed is set in `begin`.
    """

    optimizer_arguments: ClassVar[tuple[str, ...]] = ()
    """Arguments that it decides on in the groups of an optimizer: who resumes takes none of them from a checkpoint."""

    switches: ClassVar[bool] = False
    """Whether a process that trains can take its values on and back between two steps: see `withdraw`."""

    way_back: ClassVar[str] = ""
    """Why `withdraw` does not bring back exactly what was before it; empty if it does."""

    def __init__(self, knob: Knob, settings: Mapping[str, Value], device: torch.device) -> None:
        """Make the effect of a knob under some settings of a training on this device."""
        self.name = knob.name
        self.value = settings[knob.name]
        self.is_off = knob.is_off(self.value)
        self.settings = settings
        self.device = device
        self.begin()

    def begin(self) -> None:
        """Prepare what it remembers from one call to the next; called first."""

    @classmethod
    def found(cls, device: torch.device) -> Value | None:
        """Return the value that this process has now, whoever has set it; None if that cannot be read off it.

        An effect is made only of a value that differs: what the user's own code has set is neither written nor checked.
        """
        return None

    @classmethod
    def found_in(cls, optimizer: torch.optim.Optimizer) -> Value | None:
        """Return the value that the user has chosen for this optimizer; None if that cannot be read off it."""
        return None

    def process(self) -> None:
        """Change the process."""

    def dataset(self, dataset: Any) -> Any:
        """Return the dataset to load from."""
        return dataset

    def batch_factor(self) -> float:
        """Return the samples of a step, over those that it would have without this effect."""
        return 1.0

    def parts(self) -> int:
        """Return how many batches, each with its backward pass, make up what would be one batch without this effect."""
        return 1

    def loader_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments for a torch DataLoader."""
        return arguments

    def model(self, model: nn.Module) -> nn.Module:
        """Return the module to call in training; it shares its parameters with the one given."""
        return model

    def compiles(self) -> bool:
        """Whether it compiles the model, so that a new shape of batch is expensive."""
        return False

    def restore(self, model: nn.Module) -> nn.Module:
        """Return a freshly built plain model as `model` had made it before it was trained; weights come later."""
        return model

    def shrinks_after(self) -> int | None:
        """Return after how many epochs `shrink` is to be called; None: never."""
        return None

    def shrink(
        self, model: nn.Module, loss_of: Callable[[nn.Module], torch.Tensor]
    ) -> tuple[nn.Module, ModelSize] | None:
        """Return a smaller model in place of this one, and what that changed; None to leave it as it is.

        Args:
            model: The plain one, as trained so far.
            loss_of: Returns the loss of a model on a batch.
        """
        return None

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """Return the optimizer to use; it updates the same parameters."""
        return optimizer

    def rate_factor(self) -> float:
        """Return by what the learning rate of each step is multiplied."""
        return 1.0

    def prefetch(self, batches: Iterator[Item], place: Callable[[Item], Item]) -> Iterator[Item]:
        """Return the batches, perhaps placed on the device before they are needed; `place` does that."""
        return batches

    def copies_ahead(self) -> bool:
        """Whether `prefetch` fetches a batch before the step on the one before it is over."""
        return False

    def non_blocking(self) -> bool:
        """Whether the program continues while a batch is copied to the device."""
        return False

    def batch(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor of a batch as the model should get it."""
        return tensor

    def forward(self) -> AbstractContextManager[Any]:
        """Return the context of each forward pass, loss included."""
        return nullcontext()

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss to call backward on; that it is one of several parts is made up for elsewhere."""
        return loss

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Make the gradients those of the loss itself, if `scale` has multiplied it; asked before each step.

        It may be asked several times before the same step.
        """

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Make the optimizer's step and return True, or leave it to others and return False."""
        return False

    def withdraw(self) -> None:
        """Leave models and optimizers as they would be without this effect; called between two steps.

        What can be read off the process is put back by whoever calls this.
        """

    def zero_grad(self, optimizer: torch.optim.Optimizer) -> bool:
        """Clear the gradients and return True, or leave it to others and return False."""
        return False

    def check(self) -> str:
        """Return what shows, after some steps, that the value takes effect; empty if there is nothing to show.

        It is asked again after later steps: what an effect has seen once it remembers.

        Raises:
            IneffectiveError: If it silently did nothing.
        """
        return ""

    def state_dict(self) -> dict[str, Any]:
        """Return what it has learned from the steps so far, and what a training that resumes must know."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from what `state_dict` has returned."""
