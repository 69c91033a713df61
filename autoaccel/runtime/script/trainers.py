"""How long the trainers of well-known packages plan to train: they hold it, where no loop of a script does."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

from torch import nn


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


def _ppo(algorithm: Any) -> TrainerPlan | None:
    if algorithm.target_kl is not None:  # which leaves out what would change the policy too much
        return None
    samples = algorithm.n_steps * algorithm.n_envs
    # What learn() was given is kept under these names alone.
    rollouts = math.ceil((algorithm._total_timesteps - algorithm._num_timesteps_at_start) / samples)
    updates = algorithm.n_epochs * math.ceil(samples / algorithm.batch_size)
    words = f"PPO of stable-baselines3: {rollouts:,} rollouts, {updates:,} updates after each"
    return _plan(rollouts * updates, words)


def _ultralytics(trainer: Any) -> TrainerPlan | None:
    # With smaller batches than its nominal one it accumulates, more and more of them while it warms up; and it may be
    # given hours instead of epochs.
    if trainer.args.time or round(trainer.args.nbs / trainer.batch_size) > 1:
        return None
    rounds = trainer.epochs - trainer.start_epoch, len(trainer.train_loader)
    return _plan(math.prod(rounds), "the trainer of ultralytics: epochs x len(train_loader)")


_TRAINERS: dict[str, Callable[[Any], TrainerPlan | None]] = {
    "lightning.pytorch.trainer.trainer.Trainer": _lightning,
    "pytorch_lightning.trainer.trainer.Trainer": _lightning,
    "transformers.trainer.Trainer": _transformers,
    "ignite.engine.engine.Engine": _ignite,
    "stable_baselines3.ppo.ppo.PPO": _ppo,
    "ultralytics.engine.trainer.BaseTrainer": _ultralytics,
}
"""Class, or one that it is derived from -> what it plans; documented attributes wherever there are any."""


def planned_by_trainer() -> TrainerPlan | None:
    """Return what the innermost trainer plans within which the program is; None if it is within none that says so."""
    return next((found for one in _selves() if (found := _read(one))), None)


def model_of_trainer() -> nn.Module | None:
    """Return the model that a Trainer of transformers holds, within which the program is; None if it is within none.

    What it calls may be a loss that calls the model, as those of sentence-transformers do.
    """
    for one in _selves():
        if any(f"{kind.__module__}.{kind.__qualname__}" == _HOLDS_MODEL for kind in type(one).__mro__):
            model = getattr(one, "model", None)
            return model if isinstance(model, nn.Module) else None
    return None


_HOLDS_MODEL = "transformers.trainer.Trainer"


def _selves() -> Iterator[Any]:
    """Yield the objects whose methods the program is in, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_argcount and frame.f_code.co_varnames[0] == "self":
            yield frame.f_locals.get("self")
        frame = frame.f_back


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
