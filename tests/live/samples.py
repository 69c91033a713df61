"""What tests of live tuning share."""

from __future__ import annotations

import torch

from autoaccel.machine.detect import detect_machine
from autoaccel.records.settings import Settings
from autoaccel.runtime.knobs import found_settings
from autoaccel.space.knobs import KnobContext, default_settings


def own_settings() -> Settings:
    """Return what this process has, every other knob at its default."""
    return {**default_settings(KnobContext(detect_machine())), **found_settings(torch.device("cpu"))}
