"""How long the trainers of well-known packages plan to train: they hold it, where no loop of a script does."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple


class TrainerPlan(NamedTuple):
    """What a trainer plans."""

    steps: int
    words: str  # what that was read from, such as "state.max_steps of the Trainer of transformers"


def _lightning(trainer: Any) -> TrainerPlan | None:
    return _plan(trainer.estimated_stepping_batches, "estimated_stepping_batches of Lightning's Trainer")


def _transformers(trainer: Any) -> TrainerPlan | None:
    return _plan(trainer.state.max_steps, "state.max_steps of the Trainer of transformers")


def _ignite(engine: Any) -> TrainerPlan | None:
    rounds = engine.state.max_epochs or 0, engine.state.epoch_length or 0
    return _plan(math.prod(rounds), "state of Ignite's Engine: max_epochs x epoch_length")


_TRAINERS: dict[str, Callable[[Any], TrainerPlan | None]] = {
    "lightning.pytorch.trainer.trainer.Trainer": _lightning,
    "pytorch_lightning.trainer.trainer.Trainer": _lightning,
    "transformers.trainer.Trainer": _transformers,
    "ignite.engine.engine.Engine": _ignite,
}
"""Class, or one that it is derived from -> what it plans; documented attributes only."""


def planned_by_trainer() -> TrainerPlan | None:
    """Return what the innermost trainer plans within which the program is; None if it is within none that says so."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        names = frame.f_code.co_varnames
        if frame.f_code.co_argcount and names[0] == "self" and (found := _read(frame.f_locals.get("self"))):
            return found
        frame = frame.f_back
    return None


def _read(thing: Any) -> TrainerPlan | None:
    for kind in type(thing).__mro__:
        if read := _TRAINERS.get(f"{kind.__module__}.{kind.__qualname__}"):
            try:
                return read(thing)
            except Exception:  # of a version that holds it elsewhere, or does not know it yet
                return None
    return None


def _plan(steps: Any, words: str) -> TrainerPlan | None:
    known = isinstance(steps, (int, float)) and math.isfinite(steps) and steps >= 1
    return TrainerPlan(int(steps), words) if known else None
