"""What each knob does, written once. Which effect is whose, the knobs' declarations say."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import get_args

import torch

from autoaccel.errors import BadRequestError
from autoaccel.records.knob import Stage
from autoaccel.records.settings import Value
from autoaccel.runtime.knobs.effect import Effect
from autoaccel.space.knobs import KNOBS

_STAGES = get_args(Stage)


def effects_of(settings: Mapping[str, Value], device: torch.device) -> dict[str, Effect]:
    """Return the effect of each setting, in the order in which they are applied: by stage, then as declared.

    Raises:
        BadRequestError: If a setting is of no knob that is known here.
    """
    if unknown := sorted(settings.keys() - KNOBS.keys()):
        raise BadRequestError(
            f"settings: there is no knob {unknown[0]!r} here. Install the package that brings it, or tune again."
        )
    knobs = sorted((KNOBS[name] for name in KNOBS if name in settings), key=lambda knob: _STAGES.index(knob.stage))
    return {knob.name: _load(knob.effect)(knob.name, settings, device) for knob in knobs}


def _load(path: str) -> type[Effect]:
    module, _, name = path.partition(":")
    effect: type[Effect] = getattr(importlib.import_module(module), name)
    return effect
