"""KnobRow: what `autoaccel knobs` tells about one knob on this machine."""

from __future__ import annotations

from typing import Literal

import msgspec

from autoaccel.records.base import Record
from autoaccel.records.settings import Value

Group = Literal["compile", "precision", "threads", "memory", "data", "model", "optimizer", "extension", "parallel"]
"""What a knob is about."""

EffectStage = Literal["launch", "environment", "process", "data", "model", "optimizer", "step"]
"""When a knob takes effect, earliest first."""

Risk = Literal["exact", "redraws", "rounding", "changes_training"]
"""exact: the same numbers. redraws: samples drawn as before, with other random numbers, as from another seed. rounding:
the same algorithm, other rounding. changes_training: another model, batch, number of steps or draw of samples. Whatever
is not exact must keep the metric."""


Where = Literal["loop", "script"]
"""Who makes the steps: our own loop, or a script, whose parts are not at hand."""


class KnobRow(Record, frozen=True):
    """One knob, its values here, and why it is unavailable where it is."""

    name: str
    group: Group
    values: tuple[Value, ...]
    default: Value
    effect_stage: EffectStage = msgspec.field(name="stage")
    risk: Risk
    available: bool
    reason: str  # why it has no other value here, or none that is worth a trial; empty if available
    help: str
    helps_when: str
    needs: tuple[str, ...] = ()  # without which it does nothing, such as "loader.workers above 0"
