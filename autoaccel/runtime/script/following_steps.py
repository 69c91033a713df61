"""The steps of a script that trains on, told of one by one for as long as that is wanted."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from autoaccel.records.rounding import UpdatesCompared
from autoaccel.records.settings import Settings
from autoaccel.records.workload import TrainingFacts
from autoaccel.runtime.script.beside import Beside
from autoaccel.runtime.script.boundary import Boundary, PacedScript
from autoaccel.runtime.script.cycle import TrainingOverError
from autoaccel.runtime.script.events import before, listen
from autoaccel.runtime.script.models import Models
from autoaccel.runtime.script.numbering import Numbers
from autoaccel.runtime.script.observe import Observer
from autoaccel.runtime.script.switched import SwitchedSettings
from autoaccel.runtime.steps import Step
from autoaccel.runtime.trained_state import TrainedState, is_plain


class FollowedSteps(Boundary):
    """Tells of each step of a script, made under settings that may change."""

    def __init__(
        self,
        facts: TrainingFacts,
        switched: SwitchedSettings,
        observed: Observer,
        step_ended: Callable[[Step | None], None],
        ended: Callable[[bool], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Begin with the step whose gradients are computed next.

        Args:
            facts: What the script was seen to do.
            switched: Its settings.
            observed: Who has seen it: optimizers keep their numbers.
            step_ended: Called after each step; with None if it does not count.
            ended: Called once no step is told of any more, between two of them; with whether that is because another
                training has begun.
            failed: Called with an error of ours.
        """
        assert facts.script is not None  # a script was looked at
        paced = PacedScript(facts.script, switched)
        super().__init__(facts.script, paced, _nothing, switched.equip_optimizer, step_ended)
        paced.step_left_out = lambda: step_ended(None)  # type: ignore[method-assign]
        self._switched = switched
        self._ended = ended
        self._losses = paced.losses
        self._numbers = observed.numbers
        for optimizer in observed.optimizers:
            switched.equip_optimizer(optimizer)
        self._models = Models(switched, paced, self)
        self._optimizers = observed.optimizers
        self._updating = [observed.optimizers[number] for number in facts.script.cycle]
        self._beside: Beside | None = None
        self._is_beside = False  # whether updates are made that are none of the script's
        self._wants_end = self._is_another = False
        self._end_listening = listen(self, failed)

    def backward_begins(self, loss: torch.Tensor) -> None:
        """Keep the loss; and stop to listen once that is wanted."""
        if self._wants_end:
            self.end_now()
            self._ended(self._is_another)
            return
        super().backward_begins(loss)
        if self._beside is not None:
            self._beside.backward_begins(loss)

    def update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """Begin, at the latest; another training than the one that was seen is not tuned."""
        if self._wants_end or self._is_beside:
            return
        if self._beside is not None:
            self._beside.update_begins(optimizer)
        try:
            super().update_begins(optimizer)
        except TrainingOverError:
            self._is_another = True
            self.end()

    def update_ended(self, optimizer: torch.optim.Optimizer) -> None:
        """A step may be complete."""
        if self._wants_end or self._is_beside:
            return
        if self._models.trained and self._numbers.of(optimizer) == self._cycle.last:
            self._models.end()  # each was called by now; copies of them are none of the script's
        super().update_ended(optimizer)

    @property
    def numbers(self) -> Numbers:
        """The numbers of the optimizers that make its updates."""
        return self._numbers

    @property
    def loss(self) -> float:
        """Of the last step; not a number if it has none. The program waits for it."""
        return self._losses.last

    def trained_state(self) -> TrainedState | None:
        """Return what a step changes; None where an optimizer remembers more than can be copied, or nobody knows."""
        models, optimizers = self._models.trained, self._optimizers
        plain = all(
            isinstance(of_one, dict) and all(map(is_plain, of_one.values()))
            for optimizer in optimizers
            for of_one in optimizer.state.values()
        )
        return TrainedState(models, optimizers) if plain and models and optimizers else None

    def compute_beside(self, settings: Settings | None, points: int) -> None:
        """Compute the next step's update under other settings as well.

        Args:
            settings: None: the script's own alone.
            points: Of the training, at which they are compared.
        """
        if settings is None:
            self._beside = None
        elif self._beside is None:
            self._beside = Beside(self._switched, self._updating, settings, points)

    def beside(self) -> UpdatesCompared | str | None:
        """Return what updates beside say, once there are enough of them, or why they cannot be computed."""
        if self._beside is None:
            return None
        self._is_beside = True
        try:
            return self._beside.step_ended()
        finally:
            self._is_beside = False

    def end(self) -> None:
        """Tell of no further step."""
        self._wants_end = True

    def end_now(self) -> None:
        """Hear of nothing more; not to be called within an update, whose hooks are being gone through."""
        self._wants_end = True
        self._end_listening()
        self._models.end()


def _nothing() -> None:
    """The first step begins, of which nobody need be told."""


class UntilAnother:
    """Hears of nothing but another training: an optimizer makes an update that has made none before."""

    def __init__(self, known: Numbers, begun: Callable[[], None], failed: Callable[[BaseException], None]) -> None:
        """Begin to wait for it. Each update takes a microsecond or two longer.

        Args:
            known: Have the optimizers of the trainings before it.
            begun: Called once, between two of its steps.
            failed: Called with an error of what is called.
        """
        self._known = known
        self._begun = begun
        self._failed = failed
        self._process = os.getpid()
        self._end_of_hearing: Callable[[], None] | None = None  # of the gradients that are computed next
        self._hook = register_optimizer_step_pre_hook(self._update_begins)

    def end(self) -> None:
        """Wait no longer; not to be called within an update, whose hooks are being gone through."""
        self._hook.remove()
        if self._end_of_hearing is not None:
            self._end_of_hearing()
            self._end_of_hearing = None

    def _update_begins(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        # Not at once: hooks of this update are being gone through.
        if self._end_of_hearing is None and optimizer not in self._known and os.getpid() == self._process:
            self._end_of_hearing = before(torch.autograd, "backward", self._backward_begins)

    def _backward_begins(self, *_: Any, **__: Any) -> None:
        if os.getpid() != self._process:
            return
        self.end()
        try:
            self._begun()
        except BaseException as error:
            self._failed(error)
