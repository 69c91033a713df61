"""Room: which settings need more memory than this computer has, so that no trial of them is started."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from autoaccel.records.settings import Settings, Value
from autoaccel.records.space import Forbidden
from autoaccel.space.knobs import KnobContext, count_processes
from autoaccel.units import format_bytes

BATCH_FACTOR = "optimizer.batch_factor"

_DECIDING = (
    BATCH_FACTOR,
    "parallel.world_size",
    "optimizer.accumulation",
    "memory.checkpointing",
    "precision.autocast",
)
"""Knobs that change what grows with the batch, or how many processes hold the rest."""


def fit_together(peak_bytes: int, memory_bytes: float) -> bool:
    """Whether two processes of a training may be alive at once."""
    return 2 * peak_bytes <= memory_bytes


def without_room(
    context: KnobContext, possible: Mapping[str, tuple[Value, ...]], baseline: Mapping[str, Value]
) -> list[Forbidden]:
    """Return the combinations of values that cannot fit; none on accelerators, where running out of memory is harmless.

    Args:
        context: With the demand of the training.
        possible: The values of each knob that are searched or fixed.
        baseline: The user's own settings: what they change is known to fit.
    """
    if context.device != "cpu" or context.demand is None or not context.demand.batch_bytes:
        return []
    names = [name for name in _DECIDING if name in possible]
    found = []
    for values in itertools.product(*(possible[name] for name in names)):
        settings: Settings = dict(zip(names, values, strict=True))
        if all(baseline.get(name) == value for name, value in settings.items()):
            continue
        if reason := _why_no_room(settings, context):
            found.append(Forbidden(settings, reason))
    return found


def _why_no_room(settings: Settings, context: KnobContext) -> str:
    """Return why a trial of settings needs too much memory; empty if it may fit."""
    demand, there = context.demand, context.machine.usable_memory_bytes
    assert demand is not None
    batch_bytes = demand.batch_bytes or 0
    kept = 1.0 if settings.get("memory.checkpointing", "off") == "off" else 0.0  # how much it keeps nobody knows
    halved = 1.0 if settings.get("precision.autocast", "off") == "off" else 0.5
    share = float(settings.get(BATCH_FACTOR, 1.0)) / int(settings.get("optimizer.accumulation", 1))
    needed = round(count_processes(settings) * (demand.peak_bytes - batch_bytes) + batch_bytes * share * kept * halved)
    # The user's own training stays alive beside a trial, if both fit under its settings.
    beside = demand.peak_bytes if fit_together(demand.peak_bytes, there) else 0
    if needed + beside <= there:
        return ""
    own = f" beside the {format_bytes(beside)} of your own training" if beside else ""
    return f"it takes at least {format_bytes(needed)}{own}, but there are only {format_bytes(there)}"
