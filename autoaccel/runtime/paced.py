"""What a training must offer for its speed to be measured, and what it may offer beyond that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import nn

from autoaccel.records.messages import Failure, ModelSize
from autoaccel.records.settings import Value
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.data import Drawn
from autoaccel.runtime.dividing import Piece
from autoaccel.runtime.losses import StepLosses
from autoaccel.runtime.metrics import Evaluated
from autoaccel.runtime.steps import Step
from autoaccel.runtime.training import Training


class Paced(Protocol):
    """A training whose steps a `Pacer` is told of, whoever makes them."""

    applied: Applied
    """The settings under which it runs."""
    stated: Mapping[str, Value]
    """The settings that the training itself states."""
    device: torch.device
    steps_done: int
    batch_factor: float
    """Samples of a whole step, over those of a whole step of the training's own."""
    model_size: ModelSize | None
    """How large its model was and is; None if it has not shrunk."""

    @property
    def has_diverged(self) -> bool:
        """Whether the losses of its last steps are not finite, as far as that is known."""


@runtime_checkable
class Judged(Paced, Protocol):
    """A training whose losses are known, so that what it comes to can be compared with another."""

    losses: StepLosses

    def own_steps(self, steps: int) -> int:
        """Return how many of its steps see as many samples as this many of the training's own."""

    def kept_losses(self) -> tuple[float, float]:
        """Return the loss of the first step and the mean of those kept."""


class Said(NamedTuple):
    """What a training says of its own metric."""

    mean: float
    last: float
    points: int  # how many numbers the mean is of


@runtime_checkable
class Telling(Judged, Protocol):
    """A training that says itself, when it likes, how good its model is."""

    def metric_since(self, steps: int) -> Said | Failure | None:
        """Return what it says of so many steps; None if it has not said that yet."""


class Phased(Paced, Protocol):
    """A training that tells when each phase of its steps has ended."""

    phase_ended: Callable[[str], None]
    """Called with the phase; whoever wants to know replaces it."""
    samples_done: int
    """0 for as long as nobody knows how many samples a step takes."""
    loader: Any
    """What it draws its batches from."""

    @property
    def loss_is_apart(self) -> bool:
        """Whether it tells when the model's forward pass ends and the loss begins."""


@runtime_checkable
class Inspectable(Judged, Phased, Protocol):
    """A training whose model, batches and evaluation are at hand, as those of the built-in loop are.

    The metric, a profile and single updates need them. The loop says of each member what it holds.
    """

    training: Training
    plain_model: nn.Module
    model: nn.Module
    optimizer: torch.optim.Optimizer
    scheduler: Any
    loader: Iterable[Any]
    phase_ended: Callable[[str], None]
    samples_done: int
    steps_per_epoch: int
    planned_steps: int
    shrinks_at: float

    @property
    def last_loss(self) -> float: ...

    def step(self) -> Step: ...

    def step_on(self, batch: Any, piece: Piece | None = None) -> bool: ...

    def next_step(self) -> list[Drawn]: ...

    def next_batch(self) -> Any: ...

    def last_step(self) -> list[tuple[Any, Piece]]: ...

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor: ...

    def evaluate_samples(self) -> Evaluated: ...


def not_inspectable(what: str) -> Failure:
    """Return the failure of a task that needs more than the steps of a training that offers no more.

    Args:
        what: What cannot be done, as the subject of a sentence.
    """
    return Failure(
        kind="invalid",
        message=f"{what} needs the model, the batches and the evaluation of a training, but this training only "
        "reports its steps. Name a file whose build() returns a Training.",
    )
