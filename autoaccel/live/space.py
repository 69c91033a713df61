"""What a process that trains can take on and back, of all that could be searched."""

from __future__ import annotations

import msgspec

from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.runtime.knobs import switches
from autoaccel.space.change import Change
from autoaccel.space.knobs import KNOBS, KnobContext, baseline_settings
from autoaccel.space.search_space import load_space

_AT_START = "it can only be set when a process starts"
_CHANGES = "it may change the training, and nothing but whole runs would show whether it keeps the metric"


def live_space(context: KnobContext, name: str) -> SearchSpace:
    """Return a search space with the knobs alone that can change between two steps, and change no more than rounding.

    Args:
        context: The machine and the training.
        name: Of a space that comes with autoaccel, or the path of a .toml file.

    Raises:
        BadRequestError: If it is no search space.
    """
    space, own = load_space(name, context), baseline_settings(context)
    closed = {knob: _why_not(knob, own, space) for knob in space.open}
    closed = {knob: why for knob, why in closed.items() if why}
    return msgspec.structs.replace(
        space,
        open={knob: values for knob, values in space.open.items() if knob not in closed},
        fixed={**space.fixed, **{knob: own[knob] for knob in closed}},
        closed={**space.closed, **closed},
    )


def _why_not(name: str, own: Settings, space: SearchSpace) -> str:
    if not switches(KNOBS[name]):
        return _AT_START
    values = (value for value in space.open[name] if value != own[name])
    keeps = all(Change({**own, name: value}, own, space).risk in ("exact", "rounding") for value in values)
    return "" if keeps else _CHANGES
