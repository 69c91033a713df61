"""What each knob does, written once. The declarations of knobs name their effects."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping

import torch

from autoaccel.errors import BadRequestError
from autoaccel.records.settings import Settings, Value, changed
from autoaccel.runtime.knobs.effect import Effect
from autoaccel.space.knobs import KNOBS, Knob, in_order


def effects_of(
    settings: Mapping[str, Value], device: torch.device, found: Mapping[str, Value] | None = None
) -> dict[str, Effect]:
    """Return the effect of each setting by the name of its knob, in the order in which they take their turns.

    Args:
        settings: All of them.
        device: That the training runs on.
        found: What the user's own code makes of its process: such a value has no effect, for nothing is to be changed
            or checked. None: what this process has now.

    Raises:
        BadRequestError: If no known knob has the name of a setting.
    """
    if unknown := sorted(name for name in settings if name not in KNOBS):
        raise BadRequestError(
            f"settings: there is no knob {unknown[0]!r} here. Install the package that provides it, or tune again."
        )
    wanted = changed(settings, found_settings(device, settings) if found is None else found)
    return {knob.name: _effect_class(knob)(knob, settings, device) for knob in in_order(wanted)}


def found_settings(device: torch.device, names: Collection[str] = KNOBS) -> Settings:
    """Return the values that this process has now, of the knobs whose value can be read off a process."""
    return _known({name: _effect_class(knob).found(device) for name, knob in KNOBS.items() if name in names})


def found_in(optimizer: torch.optim.Optimizer) -> Settings:
    """Return the values that the user has chosen for an optimizer, of the knobs whose value can be read off it."""
    return _known({name: _effect_class(knob).found_in(optimizer) for name, knob in KNOBS.items()})


def optimizer_arguments() -> frozenset[str]:
    """Return the arguments in an optimizer's groups that some knob decides on, whether it is set or not."""
    return frozenset(name for knob in KNOBS.values() for name in _effect_class(knob).optimizer_arguments)


def _known(found: Mapping[str, Value | None]) -> Settings:
    return {name: value for name, value in found.items() if value is not None}


def _effect_class(knob: Knob) -> type[Effect]:
    module, _, name = knob.effect.partition(":")
    effect: type[Effect] = getattr(importlib.import_module(module), name)
    return effect


def switches(knob: Knob) -> bool:
    """Whether a process that trains can take on the knob's values, and take them back, between two steps."""
    return _effect_class(knob).switches


def lasts(knob: Knob) -> bool:
    """Whether a value that is taken back leaves something behind in the process."""
    return bool(_effect_class(knob).way_back)
