"""Boundary: the updates of a script's optimizers become steps of a training that is paced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import torch
from torch.utils.data import DataLoader

from autoaccel.errors import BadRequestError
from autoaccel.records.messages import Failure, ModelSize
from autoaccel.records.script import LoaderKey
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.settings import Value
from autoaccel.runtime.accelerator import Mark, mark
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.losses import StepLosses
from autoaccel.runtime.paced import Said
from autoaccel.runtime.script.cycle import Cycle, Gap, TrainingOverError
from autoaccel.runtime.script.events import Events
from autoaccel.runtime.script.metric import OwnMetric
from autoaccel.runtime.script.numbering import Numbers, key_of, length_of, ranks_now, whatever_its_batches, whole
from autoaccel.runtime.script.own_updates import OwnUpdates
from autoaccel.runtime.steps import Ahead, Step
from autoaccel.space.knobs.arguments import changes_samples

_PATIENCE_STEPS = 100  # that a script is given at least to say its metric, after those that it is asked about


class PacedScript:
    """A script's training as a `Pacer` sees it: steps, and the losses that backward() was called on."""

    def __init__(self, facts: ScriptFacts, applied: Applied, ends_after: int | None = None) -> None:
        """Begin with no step made.

        Args:
            facts: What the script was seen to do.
            applied: The settings.
            ends_after: Of its own steps, those that are trained; None for as many as are wanted.
        """
        self.applied = applied
        self.stated: Mapping[str, Value] = {}
        self.device = torch.device(facts.device)
        self.steps_done = 0
        self._ends_after = ends_after
        self.batch_factor = 1.0
        self.model_size: ModelSize | None = None
        self.losses = StepLosses(torch.sum)
        """Of the tensors that backward() was called on: several make up the loss of a step."""
        self.awaits_batches = changes_samples(applied.settings)
        """Whether arguments decide how many samples a step takes, and no loader that feeds it was drawn from yet."""
        self._own = facts
        self._backwards: int | None = 0 if self.awaits_batches else None  # of the first step, where they count
        self._epoch = facts.steps_per_epoch or 0
        self.own_metric: OwnMetric | None = None
        """What it says of itself; None: its training loss does."""
        self.before_update: Callable[[torch.optim.Optimizer], None] | None = None
        """Called before each update of an optimizer."""
        self.after_step: Callable[[], None] | None = None
        """Called after each step, those with an evaluation beside them included."""
        self.has_ended = False
        """Whether the script has come to its end."""

    @property
    def has_diverged(self) -> bool:
        """Whether none of the last steps had a finite loss; the program waits for them."""
        return self.losses.have_diverged

    def own_steps(self, steps: int) -> int:
        """Return how many of its steps see as many samples as this many of the script's own."""
        return max(1, round(steps / self.batch_factor))

    @property
    def is_over(self) -> bool:
        """Whether all steps were made; what follows shows what they have come to."""
        return self._ends_after is not None and self.steps_done >= self.own_steps(self._ends_after)

    def fed_by(self, loader: DataLoader[Any]) -> None:
        """The training draws its batches from this loader: its steps are compared by their samples."""
        own = self._own.loader.key.batch_size if self._own.loader is not None else None
        size = key_of(loader).batch_size
        if self.awaits_batches and own is not None and size is not None:
            self.batch_factor = size * ranks_now() / (own * self._own.ranks)
            self.awaits_batches = False

    def kept_losses(self) -> tuple[float, float]:
        """Return the loss of the first step, and the mean of those kept; not a number if there are none."""
        return self.losses.kept()

    def metric_since(self, steps: int) -> Said | Failure | None:
        """Return what the script says of so many steps; its training loss, unless it is to say something else."""
        if self.own_metric is None:
            loss = self.kept_losses()[1]
            return Said(loss, loss, 1)
        patience = max(_PATIENCE_STEPS, steps // 2, 2 * self._epoch)
        return self.own_metric.since(steps, patience, self.has_ended)

    def add_loss(self, loss: torch.Tensor) -> None:
        """Take in a tensor that backward() is called on, if it may be a loss."""
        if self._backwards is not None:
            self._backwards += 1
        if loss.numel() == 1:
            self.losses.add(loss)

    def forget_losses(self) -> None:
        """Those since the last step were of something else."""
        self.losses.forget()
        if self._backwards is not None:
            self._backwards = 0

    def end_step(self) -> None:
        """Count a step.

        Raises:
            BadRequestError: If the first one was made of more or fewer batches than the script's own.
        """
        if self._backwards is not None and self._backwards != self._own.backwards:
            raise BadRequestError(
                f"a step calls backward() {self._backwards} times instead of {self._own.backwards} times, so it is "
                "unknown how many samples it takes. Leave --arg for the accumulation of gradients out."
            )
        self._backwards = None
        self.steps_done += 1
        if self.own_metric is not None:
            self.own_metric.step_ends()
        self.losses.end_step(self.steps_done)
        if self.after_step is not None:
            self.after_step()

    def step_left_out(self) -> None:
        """The step that was just made had an evaluation beside it, and does not count."""


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
            step_ended: Called after each step but those with an evaluation beside them, and after the last one.
        """
        self._paced = paced
        self._named = whatever_its_batches if paced.awaits_batches else whole
        self._feeds = frozenset(self._named(loader.key) for loader in facts.loaders if loader.feeds)
        self._facts = facts
        self._has_epochs = facts.loader is not None
        self._last_share = last_share(facts)
        self._epoch_steps = 0
        self._begins = begins
        self._first_update = first_update
        self._step_ended = step_ended
        self._cycle = Cycle(facts.cycle)
        self._numbers = Numbers()
        self._gap = Gap()
        self._has_begun = False
        self._closure_losses: int | None = None  # in the update that is being made
        self._begin: Mark = 0.0
        self._ahead = Ahead() if paced.device.type != "cpu" else None
        if facts.updates_itself:
            self.own_updates = OwnUpdates(self, facts.has_loss)

    def begin(self) -> None:
        """The first step is about to be made; of no consequence once it was."""
        if not self._has_begun:
            self._has_begun = True
            self._begins()
            self._begin = mark(self._paced.device)

    def script_ended(self) -> None:
        """No more gradients are computed."""
        if self.own_updates is not None:
            self.own_updates.end()

    def start_again(self) -> None:
        """The script has ended and is started again."""
        self._gap.evaluated("start")
        self._closure_losses = None
        self._paced.forget_losses()
        self._cycle.begin_anew()
        self._numbers.begin_anew()

    def loader_begins(self, loader: DataLoader[Any]) -> None:
        """An epoch begins, or an evaluation."""
        key = key_of(loader)
        if self._named(key) not in self._feeds:
            self._gap.evaluated(key)
            return
        self._paced.fed_by(loader)
        if self._facts.loader is not None and key != self._facts.loader.key:
            self._facts = with_loader(self._facts, key, length_of(loader))
            self._last_share = last_share(self._facts)
        self.begin()
        self._epoch_steps = 0
        if self._gap.began_epoch():
            self._begin = mark(self._paced.device)

    def saves(self) -> None:
        """A checkpoint is no step."""
        self._gap.evaluated("save")

    def evaluates(self, model: int) -> None:
        """A model that is trained is called, but not to train it.

        Args:
            model: Tells it from others.
        """
        self._gap.evaluated(model)

    def backward_begins(self, loss: torch.Tensor) -> None:
        """Keep the loss; of a closure, which an update may call any number of times, that at which it began."""
        if not self._has_begun:
            self.begin()
        if self._closure_losses is not None:
            self._closure_losses += 1
        if (self._closure_losses or 0) <= 1:
            self._paced.add_loss(loss)

    def update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """Begin, at the latest.

        Raises:
            TrainingOverError: If it is of another training that begins after the one that was seen.
        """
        if not self._has_begun:
            self.begin()
        if optimizer not in self._numbers:
            if self._numbers.of(optimizer) > self._cycle.last:
                raise TrainingOverError
            self._first_update(optimizer)
        if self._paced.before_update is not None:
            self._paced.before_update(optimizer)
        self._closure_losses = 0

    def update_ended(self, optimizer: torch.optim.Optimizer) -> None:
        """A step may be complete."""
        self._closure_losses = None
        number = self._numbers.of(optimizer)
        if number < self._cycle.first:
            self._gap.evaluated("another training")
            self._paced.forget_losses()
            return
        if not self._cycle.is_complete_after(number):
            return
        self._paced.end_step()
        self._epoch_steps += 1
        counts, begins_epoch = self._gap.end()
        if counts or self._paced.is_over:
            is_last = self._epoch_steps == self._facts.steps_per_epoch
            begins_epoch = begins_epoch and self._has_epochs
            step = Step(self._begin, mark(self._paced.device), begins_epoch, self._last_share if is_last else 1.0)
            if self._ahead is not None:
                self._ahead.add(step)
            self._step_ended(step)
        else:
            self._paced.step_left_out()
        self._begin = mark(self._paced.device)


def with_loader(facts: ScriptFacts, key: LoaderKey, batches: int | None) -> ScriptFacts:
    """Return the facts of a script whose training is fed in other batches.

    Args:
        facts: Of the script as it was seen, which one loader feeds.
        key: Of the loader that feeds it now.
        batches: Of its epoch, if it has a length.
    """
    own = facts.loader
    assert own is not None
    together = max(1, (own.batches or 1) // (facts.steps_per_epoch or 1))  # batches of a step
    feeding = msgspec.structs.replace(own, key=key, batches=batches)
    loaders = tuple(feeding if loader == own else loader for loader in facts.loaders)
    steps = max(1, batches // together) if batches is not None else None
    return msgspec.structs.replace(facts, loaders=loaders, steps_per_epoch=steps)


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
