"""What a process that trains can take on and back, of all that could be searched."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from autoaccel.records.settings import Settings, Value
from autoaccel.records.space import SearchSpace
from autoaccel.records.workload import TrainingFacts
from autoaccel.runtime.knobs import switches
from autoaccel.space.change import Change
from autoaccel.space.knobs import KNOBS, KnobContext, baseline_settings
from autoaccel.space.search_space import load_space

_AT_START = "it can only be set when a process starts"
_AS_IT_IS_MADE = "it can only be set where a loader is made"
_ANEW = "the script compiles its model, which would be compiled anew each time that this changes"
_COMPILED_FOR = ("threads", "precision", "model", "layout")
"""Groups of knobs by whose values compiled code is chosen: dynamo guards on them (torch 2.13.0)."""
_HELD = "each worker may come to hold as much memory as this process does, and there is not as much"
_TOGETHER = "where processes train together, only what is exact and their own is tried while they train"
_WORKERS = "loader.workers"
KEEPS = ("exact", "redraws", "rounding")
"""Risks that a training may run while it is tuned."""
_CHANGES = "it may change the training, and nothing but whole runs would show whether it keeps the metric"


def live_space(context: KnobContext, name: str, is_alone: bool = True) -> SearchSpace:
    """Return a search space with the knobs alone that can change between two steps, and keep the training what it is.

    Args:
        context: The machine and the training.
        name: Of a space that comes with autoaccel, or the path of a .toml file.
        is_alone: Whether no other process trains together with this one.

    Raises:
        BadRequestError: If it is no search space.
    """
    space, own = load_space(name, context), baseline_settings(context)
    closed = {knob: _why_not(knob, own, space, context) for knob in space.open}
    if not is_alone:
        closed = {knob: why or _why_not_together(knob) for knob, why in closed.items()}
    closed = {knob: why for knob, why in closed.items() if why}
    return msgspec.structs.replace(
        space,
        open={knob: values for knob, values in _fitting(space.open, context).items() if knob not in closed},
        fixed={**space.fixed, **{knob: own[knob] for knob in closed}},
        closed={**space.closed, **closed},
    )


def compiles_itself(facts: TrainingFacts) -> bool:
    """Whether a script was seen to compile its model."""
    return "torch.compile" in facts.seen.must_be_script("its steps are heard as those of a script.").does


def _why_not(name: str, own: Settings, space: SearchSpace, context: KnobContext) -> str:
    if not switches(KNOBS[name]):
        return _AS_IT_IS_MADE if KNOBS[name].effect_stage == "data" else _AT_START
    if KNOBS[name].group in _COMPILED_FOR and context.training and compiles_itself(context.training):
        return _ANEW
    values = [value for value in space.open[name] if value != own[name]]
    if not all(Change({**own, name: value}, own, space).risk in KEEPS for value in values):
        return _CHANGES
    return "" if _fitting({name: tuple(values)}, context)[name] else _HELD


def _why_not_together(name: str) -> str:
    is_own = KNOBS[name].risk == "exact" and KNOBS[name].effect_stage != "data"
    return "" if is_own else _TOGETHER


def _fitting(values: Mapping[str, tuple[Value, ...]], context: KnobContext) -> dict[str, tuple[Value, ...]]:
    """Return the values without more workers than there is memory for, if each comes to hold what this process does."""
    demand, there = context.demand, context.machine.usable_memory_bytes
    if demand is None or _WORKERS not in values:
        return dict(values)
    fits = tuple(value for value in values[_WORKERS] if (1 + int(value)) * demand.peak_bytes <= there)
    return {**values, _WORKERS: fits}
