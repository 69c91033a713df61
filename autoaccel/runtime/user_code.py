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
from autoaccel.runtime.contents import changed_between, values_in
from autoaccel.runtime.held import (
    changed_as_it_trains,
    computes_with_trained,
    names_read,
    trained_in,
)
from autoaccel.runtime.knobs import found_in, found_settings
from autoaccel.runtime.loop import Loop, device_of
from autoaccel.runtime.training import Training

_LOOKED_AT = 64
"""Batches. Passages that are cut off at a length are padded to it in most batches: of a BERT the first three had one
shape, and a compilation for it was in vain."""

_LOOK_SECONDS = 1.0  # after which no more are loaded: somebody waits for a run to begin


class UserCodeFacts(NamedTuple):
    """See TrainingFacts: found, own_autocast, shapes_change, and of loading_bound what a step shows."""

    settings: Settings
    autocast: str
    shapes_change: bool
    why_bound: str = ""  # by what the step has changed of its samples' sources, or by what they compute with


def read_user_code(training: Training) -> UserCodeFacts:
    """Return what the process has after build() and a first step, which is made here: both may set something.

    A step that fails is no fault of what is found so far; it fails again, and is told, when it is measured.
    """
    device = device_of(training)
    types: set[torch.dtype] = set()
    shapes_change = False
    bound = ""

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
                until = time.perf_counter() + _LOOK_SECONDS
                first = loop.next_batch()
                with contextlib.suppress(Exception):  # a later batch that cannot be loaded says nothing of the step
                    shapes_change = _shapes_change(loop, first, until)
                sources = [one for one in _sources(loop) if one is not None]
                before = values_in(sources)
                loop.step_on(first)
                trained = {id(one) for one in training.model.parameters()}
                if name := changed_between(before, values_in(sources), names_read(sources)):
                    bound = changed_as_it_trains(name)
                elif name := trained_in(sources, trained):
                    bound = computes_with_trained(name)
        finally:
            hook.remove()
    autocast = sorted(str(dtype).removeprefix("torch.") for dtype in types)
    of_optimizer = found_in(training.make_optimizer(training.model))
    settings = {**found_settings(device), **of_optimizer}
    return UserCodeFacts(settings, " and ".join(autocast), shapes_change, bound)


def _sources(loop: Loop) -> list[Any]:
    """Return what the samples of a training come from."""
    loader = loop.loader
    return [loader.dataset, loader.collate_fn] if isinstance(loader, torch.utils.data.DataLoader) else []


def _shapes_change(loop: Loop, first: Any, until: float) -> bool:
    """Return whether one of the next batches differs from the first in the shapes of its tensors.

    Not the last of an epoch, which may be incomplete; and none that would be loaded after `until`, by
    `time.perf_counter`.
    """
    for _ in range(min(_LOOKED_AT, loop.steps_per_epoch - 1) - 1):
        if time.perf_counter() >= until:
            return False
        if _shapes(loop.next_batch()) != _shapes(first):
            return True
    return False


def _shapes(batch: Any) -> list[torch.Size]:
    return [tensor.shape for tensor in tensors_of(batch)]
