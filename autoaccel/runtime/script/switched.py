"""Settings that change while a script trains: taken on and taken back between two of its steps."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from autoaccel.records.settings import Settings, Value
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.batches import map_tensors, tensors_of
from autoaccel.runtime.knobs import effects_of, found_settings
from autoaccel.runtime.knobs.effect import Effect
from autoaccel.runtime.script.install import AppliedToScript, Equipped, as_float32
from autoaccel.space.knobs import KNOBS


class SwitchedSettings(AppliedToScript):
    """Settings of a script that trains, which can be others from the next step on.

    Nothing else of a step may be in flight when they change: no gradient is computed, no optimizer makes an update.
    """

    equips_all = True

    def __init__(self, own: Settings, device: str, begins: Settings | None = None) -> None:
        """Begin with the user's own settings, under which nothing is changed, or with others.

        Args:
            own: All of the user's own.
            device: That the training runs on.
            begins: What it begins with; None: these.
        """
        super().__init__(own if begins is None else begins, device, own)
        self._own = dict(own)
        self._optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        readable = found_settings(self.device)
        # knob -> what the process had before its effect, or would have without it
        self._before = {effect.name: own[effect.name] for effect in self._effects if effect.name in readable}
        self.size = 0
        """Numbers in all that models were called with to train them, since somebody has set it to 0."""

    def equip_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Let an optimizer update as the settings say, now and after they have changed."""
        if optimizer not in self._optimizers:
            self._optimizers.add(optimizer)
            super().equip_optimizer(optimizer)

    def called(self, equipped: Equipped, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call of a model in training, and count the numbers that it is given."""
        self.size += sum(one.numel() for one in (*tensors_of(args), *tensors_of(kwargs)))
        return super().called(equipped, args, kwargs)

    def switch(self, settings: Mapping[str, Value]) -> None:
        """Train under these settings from the next step on.

        Raises:
            ValueError: If a setting can only be made when a process starts.
        """
        if settings == self.settings:
            return
        wanted = effects_of(settings, self.device, self._own)
        standing = {one.name: one for one in self._effects}
        kept = {name: one for name, one in standing.items() if name in wanted and wanted[name].value == one.value}
        for effect in [*wanted.values(), *standing.values()]:
            if effect.name not in kept and not effect.switches:
                raise ValueError(f"{effect.name} can only be set when a process starts")
        for effect in reversed(self._effects):
            if effect.name not in kept:
                self._withdraw(effect)
        self._effects = tuple(kept.get(name, effect) for name, effect in wanted.items())
        self.settings = dict(settings)
        self._is_short = settings.get("precision.autocast", "off") != "off"
        for effect in self._effects:
            effect.settings = self.settings
            if effect.name not in kept:
                self._take_on(effect)
        for equipped in tuple(self.equipped):
            equipped.follow()

    @contextmanager
    def beside(self, settings: Mapping[str, Value]) -> Iterator[AppliedBeside]:
        """Have other settings in force for what is computed in the block; then the process is as it was.

        What is exact is left out: it changes no number.
        """
        wanted = {name: self._own[name] if KNOBS[name].risk == "exact" else value for name, value in settings.items()}
        standing = {effect.name: self._before[effect.name] for effect in self._effects if effect.name in self._before}
        for name, before in standing.items():
            self._put(name, before)
        effects = effects_of(wanted, self.device, self._own)
        own = {name: found for name, effect in effects.items() if (found := effect.found(self.device)) is not None}
        try:
            yield AppliedBeside(wanted, self.device, self._own)
        finally:
            for name, before in own.items():
                self._put(name, before)
            for name in standing:
                self._put(name, self.settings[name])

    def let_go(self) -> None:
        """Leave models that these settings do not change as the script has made them; settings change no more."""
        if not self.changing_calls:
            for equipped in tuple(self.equipped):
                equipped.let_go()

    def _take_on(self, effect: Effect) -> None:
        if (before := effect.found(self.device)) is not None:
            self._before[effect.name] = before
        effect.process()
        for optimizer in tuple(self._optimizers):
            effect.optimizer(optimizer)

    def _withdraw(self, effect: Effect) -> None:
        effect.withdraw()
        if (before := self._before.pop(effect.name, None)) is not None:
            self._put(effect.name, before)

    def _put(self, name: str, value: Value) -> None:
        """Give the process a value that could be read off it."""
        # As if it had none of its own: a value that equals that has no effect.
        effects_of({name: value}, self.device, {})[name].process()


class AppliedBeside(Applied):
    """Settings for what is computed beside a training."""

    def compute(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what a model computes in training."""
        trained = self.model(model)
        with torch.enable_grad(), self.forward():
            outputs = trained(*self.arranged(args), **self.arranged(kwargs))
        is_short = self.settings.get("precision.autocast", "off") != "off"
        return map_tensors(as_float32, outputs) if is_short else outputs
