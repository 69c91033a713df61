"""What the user's own code makes of its process and its optimizer. The baseline of all that is tuned."""

from __future__ import annotations

import contextlib
import time
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from autoaccel.records.settings import Settings
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.batches import tensors_of
from autoaccel.runtime.knobs import found_in, found_settings
from autoaccel.runtime.loop import Loop, device_of
from autoaccel.runtime.training import Training

_LOOKED_AT = 3  # batches,
_LOOK_SECONDS = 1.0  # after which no more are loaded: somebody waits for a run to begin


class UserCodeFacts(NamedTuple):
    """See TrainingFacts.found, TrainingFacts.own_autocast and TrainingFacts.shapes_change."""

    settings: Settings
    autocast: str
    shapes_change: bool


def read_user_code(training: Training) -> UserCodeFacts:
    """Return what the process has after build() and a first step, which is made here: both may set something.

    A step that fails is no fault of what is found so far; it fails again, and is told, when it is measured.
    """
    device = device_of(training)
    types: set[torch.dtype] = set()
    shapes: list[list[torch.Size]] = []  # of each batch

    def look(module: nn.Module, inputs: Any) -> None:
        if torch.is_autocast_enabled(device.type):
            types.add(torch.get_autocast_dtype(device.type))

    # What the user has compiled would be compiled for this step alone, which may take minutes.
    if not any(isinstance(module, torch._dynamo.OptimizedModule) for module in training.model.modules()):
        # Of every module: a model may run a part of itself under autocast.
        hook = register_module_forward_pre_hook(look)
        try:
            with contextlib.suppress(Exception, SystemExit):  # the baseline fails like this, too, and says so
                loop = Loop(training, Applied({}, device), seed=0)
                first, *_ = _first_batches(loop, shapes)
                loop.step_on(first)
        finally:
            hook.remove()
    autocast = sorted(str(dtype).removeprefix("torch.") for dtype in types)
    of_optimizer = found_in(training.make_optimizer(training.model))
    settings = {**found_settings(device), **of_optimizer}
    return UserCodeFacts(settings, " and ".join(autocast), any(other != shapes[0] for other in shapes[1:]))


def _first_batches(loop: Loop, shapes: list[list[torch.Size]]) -> list[Any]:
    """Return up to three batches, and add the shapes of their tensors to the list.

    Not the last of an epoch, which may be incomplete; and the first alone if that took a second.
    """
    batches: list[Any] = []
    until = time.perf_counter() + _LOOK_SECONDS
    most = min(_LOOKED_AT, loop.steps_per_epoch - 1)
    while not batches or (len(batches) < most and time.perf_counter() < until):
        batches.append(loop.next_batch())
        shapes.append([tensor.shape for tensor in tensors_of(batches[-1])])
    return batches
