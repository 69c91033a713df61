"""What each knob does, written once. Which effect is whose, the knobs' declarations say."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from typing import get_args

import torch

from autoaccel.errors import BadRequestError
from autoaccel.records.knob import Stage
from autoaccel.records.settings import Settings, Value, changed
from autoaccel.runtime.knobs.effect import Effect
from autoaccel.space.knobs import KNOBS

_STAGES = get_args(Stage)


def effects_of(
    settings: Mapping[str, Value], device: torch.device, own: Mapping[str, Value] | None = None
) -> dict[str, Effect]:
    """Return the effect of each setting, in the order in which they are applied: by stage, then as declared.

    Args:
        settings: All of them.
        device: That the training runs on.
        own: What the user's own code makes of its process: such a value has no effect of its own, for nothing is to be
            changed or checked. None: what this process has now.

    Raises:
        BadRequestError: If a setting is of no knob that is known here.
    """
    if unknown := sorted(settings.keys() - KNOBS.keys()):
        raise BadRequestError(
            f"settings: there is no knob {unknown[0]!r} here. Install the package that brings it, or tune again."
        )
    wanted = changed(settings, found_settings(device, settings) if own is None else own)
    knobs = sorted((KNOBS[name] for name in KNOBS if name in wanted), key=lambda knob: _STAGES.index(knob.stage))
    return {knob.name: _load(knob.effect)(knob.name, settings, device) for knob in knobs}


def found_settings(device: torch.device, names: Collection[str] = KNOBS) -> Settings:
    """Return the values that this process has now, of those of these knobs of which that can be read off it."""
    found = {name: _load(knob.effect).found(device) for name, knob in KNOBS.items() if name in names}
    return {name: value for name, value in found.items() if value is not None}


def _load(path: str) -> type[Effect]:
    module, _, name = path.partition(":")
    effect: type[Effect] = getattr(importlib.import_module(module), name)
    return effect
