"""Boundary: the updates of a script's optimizers become steps of a training that is paced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader

from autoaccel.records.script import LoaderKey, ScriptFacts
from autoaccel.records.settings import Value
from autoaccel.records.trial import ModelSize
from autoaccel.runtime.accelerator import Mark, mark
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.losses import StepLosses
from autoaccel.runtime.script.cycle import Cycle, Gap
from autoaccel.runtime.script.events import Events
from autoaccel.runtime.script.numbering import Numbers, key_of
from autoaccel.runtime.steps import Ahead, Step


class PacedScript:
    """A script's training as a `Pacer` sees it: steps, and the losses that backward() was called on."""

    def __init__(self, facts: ScriptFacts, applied: Applied) -> None:
        """Begin with no step made.

        Args:
            facts: What the script was seen to do.
            applied: The settings.
        """
        self.applied = applied
        self.stated: Mapping[str, Value] = {}
        self.device = torch.device(facts.device)
        self.steps_done = 0
        self.batch_factor = 1.0
        self.model_size: ModelSize | None = None
        self.losses = StepLosses(torch.sum)
        """Of the tensors that backward() was called on: several make up the loss of a step."""

    @property
    def has_diverged(self) -> bool:
        """Whether none of the last steps had a finite loss; the program waits for them."""
        return self.losses.have_diverged

    def own_steps(self, steps: int) -> int:
        """Return how many of its steps see as many samples as this many of the script's own: as many."""
        return steps

    def kept_losses(self) -> tuple[float, float]:
        """Return the loss of the first step, and the mean of those kept; not a number if there are none."""
        return self.losses.kept()

    def add_loss(self, loss: torch.Tensor) -> None:
        """Take in a tensor that backward() is called on, if it may be a loss."""
        if loss.numel() == 1:
            self.losses.add(loss.detach().reshape(()).float())

    def end_step(self) -> None:
        """Count a step."""
        self.steps_done += 1
        self.losses.end_step(self.steps_done)


class Boundary(Events):
    """Tells whoever paces a script of each of its steps, from within the script's own calls."""

    def __init__(
        self,
        facts: ScriptFacts,
        paced: PacedScript,
        begins: Callable[[], None],
        first_update: Callable[[torch.optim.Optimizer], None],
        step_ended: Callable[[Step], None],
    ) -> None:
        """Begin before the first step.

        Args:
            facts: What the script was seen to do.
            paced: Told of the steps and of the losses.
            begins: Called when the first step is about to be made, perhaps after its batch was loaded.
            first_update: Called with each optimizer before its first update.
            step_ended: Called after each step but those with an evaluation beside them.
        """
        self._paced = paced
        self._feeds: frozenset[LoaderKey] = frozenset(loader.key for loader in facts.loaders if loader.feeds)
        self._has_epochs = facts.loader is not None
        self._steps_per_epoch = facts.steps_per_epoch
        self._last_share = last_share(facts)
        self._epoch_steps = 0
        self._begins = begins
        self._first_update = first_update
        self._step_ended = step_ended
        self._cycle = Cycle(facts.cycle)
        self._numbers = Numbers()
        self._gap = Gap()
        self._has_begun = False
        self._begin: Mark = 0.0
        self._ahead = Ahead()

    def begin(self) -> None:
        """The first step is about to be made; of no consequence once it was."""
        if not self._has_begun:
            self._has_begun = True
            self._begins()
            self._begin = mark(self._paced.device)

    def start_again(self) -> None:
        """The script has ended and is started again."""
        self._gap.evaluated()
        self._cycle.begin_anew()
        self._numbers.begin_anew()

    def loader_begins(self, loader: DataLoader[Any]) -> None:
        """An epoch begins, or an evaluation."""
        if key_of(loader) not in self._feeds:
            self._gap.evaluated()
            return
        self.begin()
        self._epoch_steps = 0
        if self._gap.began_epoch():
            self._begin = mark(self._paced.device)

    def saves(self) -> None:
        """A checkpoint is no step."""
        self._gap.evaluated()

    def backward_begins(self, loss: torch.Tensor) -> None:
        """Keep the loss."""
        self.begin()
        self._paced.add_loss(loss)

    def update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """Begin, at the latest."""
        self.begin()
        if optimizer not in self._numbers:
            self._numbers.of(optimizer)
            self._first_update(optimizer)

    def update_ended(self, optimizer: torch.optim.Optimizer) -> None:
        """A step may be complete."""
        if not self._cycle.is_complete_after(self._numbers.of(optimizer)):
            return
        self._paced.end_step()
        self._epoch_steps += 1
        counts, begins_epoch = self._gap.end()
        if counts:
            is_last = self._epoch_steps == self._steps_per_epoch
            begins_epoch = begins_epoch and self._has_epochs
            step = Step(self._begin, mark(self._paced.device), begins_epoch, self._last_share if is_last else 1.0)
            self._ahead.add(step)
            self._step_ended(step)
        self._begin = mark(self._paced.device)


def last_share(facts: ScriptFacts) -> float:
    """Return the samples of an epoch's last step, over those of the others."""
    loader = facts.loader
    if loader is None or facts.steps_per_epoch is None or loader.batches is None:
        return 1.0
    samples, batch = loader.key.samples, loader.key.batch_size
    if samples is None or batch is None or facts.steps_per_epoch != loader.batches:
        return 1.0
    rest = samples - (loader.batches - 1) * batch
    return rest / batch if 0 < rest < batch else 1.0
