"""Knobs as another package brings them: one for each thing that `Applied` asks of effects."""

from __future__ import annotations

from autoaccel.records.settings import Value
from autoaccel.space.knobs.knob import Knob, always, choices


def _knob(what: str, effect: str, off: Value, other: Value) -> Knob:
    return Knob(
        name=f"brought.{what}",
        group="optimizer",
        effect_stage="step",
        risk="changes_training",
        help=what,
        helps_when="it is tested",
        effect=f"brought_effects:{effect}",
        values=choices(off, other),
        usual=always(off),
        off=off,
    )


BATCH = _knob("batch", "Batch", 1.0, 2.0)
PARTS = _knob("parts", "Parts", 1, 2)
MOMENTUM = _knob("momentum", "Momentum", 0.0, 0.9)
SCALE = _knob("scale", "Scale", 1.0, 1024.0)
COPIES = _knob("copies", "Copies", False, True)
