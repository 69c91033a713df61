"""How long well-known trainers plan to train is read off them; they are played by classes of the same names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from autoaccel.runtime.script.trainers import TrainerPlan, planned_by_trainer


def trainer_of(module: str, name: str, **attributes: Any) -> Any:
    def fit(self: Any) -> TrainerPlan | None:
        return planned_by_trainer()

    return type(name, (), {"__module__": module, "fit": fit, **attributes})()


PPO = {"target_kl": None, "n_steps": 128, "n_envs": 4, "n_epochs": 10, "batch_size": 64}
PPO |= {"_total_timesteps": 20_000, "_num_timesteps_at_start": 0}
YOLO = {"epochs": 8, "start_epoch": 0, "batch_size": 64, "train_loader": [0] * 6}
YOLO |= {"args": SimpleNamespace(nbs=64, time=None)}


@pytest.mark.parametrize(
    ("trainer", "steps"),
    [
        (trainer_of("transformers.trainer", "Trainer", state=SimpleNamespace(max_steps=900)), 900),
        (trainer_of("lightning.pytorch.trainer.trainer", "Trainer", estimated_stepping_batches=960), 960),
        (trainer_of("pytorch_lightning.trainer.trainer", "Trainer", estimated_stepping_batches=96.0), 96),
        (
            trainer_of("ignite.engine.engine", "Engine", state=SimpleNamespace(max_epochs=3, epoch_length=50)),
            150,
        ),
        (trainer_of("stable_baselines3.ppo.ppo", "PPO", **PPO), 40 * 10 * 8),
        # One that goes on, in rollouts that are no multiple of its batches.
        (
            trainer_of(
                "stable_baselines3.ppo.ppo", "PPO", **{**PPO, "n_steps": 130, "_num_timesteps_at_start": 10_000}
            ),
            20 * 10 * 9,
        ),
        (trainer_of("ultralytics.engine.trainer", "BaseTrainer", **YOLO), 48),
        (trainer_of("ultralytics.engine.trainer", "BaseTrainer", **{**YOLO, "start_epoch": 5}), 18),
        # None of these says it.
        (trainer_of("stable_baselines3.ppo.ppo", "PPO", **{**PPO, "target_kl": 0.01}), None),
        (trainer_of("ultralytics.engine.trainer", "BaseTrainer", **{**YOLO, "batch_size": 16}), None),
        (
            trainer_of(
                "ultralytics.engine.trainer", "BaseTrainer", **{**YOLO, "args": SimpleNamespace(nbs=64, time=2.0)}
            ),
            None,
        ),
        (trainer_of("lightning.pytorch.trainer.trainer", "Trainer", estimated_stepping_batches=float("inf")), None),
        (trainer_of("transformers.trainer", "Trainer", state=SimpleNamespace(max_steps=-1)), None),
        (trainer_of("transformers.trainer", "Trainer"), None),
        (trainer_of("own", "Trainer", state=SimpleNamespace(max_steps=900)), None),
    ],
)
def test_a_trainer_says_how_long_it_trains(trainer: Any, steps: int | None) -> None:
    found = trainer.fit()
    assert (found and found.steps) == steps


def test_a_trainer_that_was_derived_is_one_too() -> None:
    own = type(trainer_of("transformers.trainer", "Trainer", state=SimpleNamespace(max_steps=900)))
    found = type("MyTrainer", (own,), {"__module__": "__main__"})().fit()
    assert found == (900, "state.max_steps of the Trainer of transformers")
