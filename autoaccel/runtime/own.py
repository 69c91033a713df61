"""What the user's own code makes of its process and its optimizer. The baseline of all that is tuned."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from autoaccel.records.settings import Settings
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.knobs import found_settings
from autoaccel.runtime.knobs.optimizers import own_forms
from autoaccel.runtime.loop import Loop, device_of
from autoaccel.runtime.training import Training


class Own(NamedTuple):
    """See TrainingFacts.found and TrainingFacts.own_autocast."""

    settings: Settings
    autocast: str


def find_own(training: Training) -> Own:
    """Return what the process has after build() and a first step, which is made here: both may set something.

    A step that fails is no fault of what is found so far; it fails again, and is told, when it is measured.
    """
    device = device_of(training)
    types: set[torch.dtype] = set()

    def look(module: nn.Module, inputs: Any) -> None:
        if torch.is_autocast_enabled(device.type):
            types.add(torch.get_autocast_dtype(device.type))

    # What the user has compiled would be compiled for this step alone, which may take minutes.
    if not any(isinstance(module, torch._dynamo.OptimizedModule) for module in training.model.modules()):
        # Of every module: a model may run a part of itself under autocast.
        hook = register_module_forward_pre_hook(look)
        try:
            with contextlib.suppress(Exception, SystemExit):
                Loop(training, Applied({}, device), seed=0).step()
        finally:
            hook.remove()
    autocast = sorted(str(dtype).removeprefix("torch.") for dtype in types)
    forms = own_forms(training.make_optimizer(training.model))
    return Own({**found_settings(device), **forms}, " and ".join(autocast))
