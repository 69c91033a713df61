"""Settings for a script's whole run: applied where its parts begin, and looked at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from autoaccel.records.messages import WorkerSpec
from autoaccel.runtime.script.events import Events, RootCalls, listen
from autoaccel.runtime.script.install import AppliedToScript, install_loaders
from autoaccel.runtime.script.numbering import Numbers, whatever_its_arguments
from autoaccel.runtime.script.own_updates import OwnUpdates
from autoaccel.text import say

_LOOK_AFTER = 10  # updates: an effect may need some of them to show


def apply_to_run(spec: WorkerSpec, applied: AppliedToScript | None = None) -> Callable[[], bool]:
    """Apply the settings to this process, in which torch was just imported, and to what the script makes in it.

    Args:
        spec: Of the run.
        applied: The settings, if they were applied to the process already.

    Returns:
        What tells whether an update was heard since.
    """
    assert spec.script is not None  # a recipe for a script has it
    if applied is None:
        applied = AppliedToScript(spec.settings, spec.script.device, spec.found)
    install_loaders(spec.script, applied, whatever_its_arguments)
    run = _Run(applied)
    if spec.script.updates_itself:
        run.own_updates = OwnUpdates(run, spec.script.has_loss)
    run.end = listen(run, _tell_error)
    return lambda: run.has_heard


class _Run(Events):
    """Hears of the script's first updates; of later ones if models and optimizers that are new are to be changed."""

    def __init__(self, applied: AppliedToScript) -> None:
        self.end: Callable[[], None] = lambda: None
        """Ends that, outside of an update."""
        self._applied = applied
        self._numbers = Numbers()
        self._updates = 0
        self._roots: RootCalls | None = None
        self._look_until = 0
        self._look_for_models()

    @property
    def has_heard(self) -> bool:
        """Whether an update was made."""
        return self._updates > 0

    def _look_for_models(self) -> None:
        """Hear of models for some updates; a script may replace one, together with its optimizer."""
        self._look_until = self._updates + _LOOK_AFTER - 1
        if self._applied.changing_calls and self._roots is None:
            self._roots = RootCalls(self._called)

    def _called(self, module: nn.Module, trains: bool) -> None:
        if trains:
            self._applied.equip_model(module)

    def loader_begins(self, loader: DataLoader[Any]) -> None:
        """Set the process once more: what the script has set on its way here would hold otherwise."""
        if not self._updates:
            self._applied.insist()

    def backward_begins(self, loss: torch.Tensor) -> None:
        """The same, where no loader is drawn from; and stop listening where nothing is left to be done."""
        if not self._updates:
            self._applied.insist()
        elif self._updates >= _LOOK_AFTER and self._roots is None and self._applied.has_equipped_all:
            self.end()  # each step of the script takes as long as without us from here on

    def update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """Let an optimizer that is new update as the settings say."""
        if optimizer not in self._numbers:
            self._numbers.of(optimizer)
            self._look_for_models()
            self._applied.equip_optimizer(optimizer)

    def update_ended(self, optimizer: torch.optim.Optimizer) -> None:
        """Tell which settings have shown no effect."""
        self._updates += 1
        if self._roots is not None and self._updates >= self._look_until:  # by then each model was called
            self._roots.end()
            self._roots = None
        if self._updates == _LOOK_AFTER:
            for name, reason in self._applied.check()[1].items():
                say(f"autoaccel: {name} has no effect: {reason}", to_stderr=True)


def _tell_error(error: BaseException) -> None:
    """A setting that fails must not end a training."""
    say(f"autoaccel: {type(error).__name__}: {error}", to_stderr=True)
