"""The models that a script calls itself, until its first step is made."""

from __future__ import annotations

from functools import partial

from torch import nn

from autoaccel.runtime.script.boundary import Boundary, PacedScript
from autoaccel.runtime.script.events import RootCalls
from autoaccel.runtime.script.install import AppliedToScript


class Models:
    """Equips each model when it is first called to be trained."""

    def __init__(self, applied: AppliedToScript, paced: PacedScript, boundary: Boundary) -> None:
        """Begin to watch.

        Args:
            applied: The settings.
            paced: The script's training.
            boundary: Told that the first step begins, and of each later call that is no training.
        """
        self._applied = applied
        self._paced = paced
        self._boundary = boundary
        self.trained: list[nn.Module] = []
        """In the order of their first calls."""
        self._roots: RootCalls | None = None
        self.watch()

    def watch(self) -> None:
        """Begin to watch, anew if the script was started again: its models are other objects then."""
        self.end()
        self.trained = []
        self._roots = RootCalls(self._called)

    def end(self) -> None:
        """All models are known. Until then, each call of a module takes longer."""
        if self._roots is not None:
            self._roots.end()
        self._roots = None

    def _called(self, module: nn.Module, trains: bool) -> None:
        if not trains:
            return
        if not any(module is one for one in self.trained):
            self.trained.append(module)
        if not self._paced.awaits_batches:  # which a loader will tell, before the first step
            self._boundary.begin()
        self._applied.equip_model(module, partial(self._boundary.evaluates, id(module)))
