"""A training of eighteen short steps that ends well, and one whose last step fails in every other rank."""

from __future__ import annotations

import torch
from torch import distributed, nn
from torch.utils.data import TensorDataset

import autoaccel

INPUTS = torch.randn(96, 8, generator=torch.Generator().manual_seed(0))
DATA = TensorDataset(INPUTS, (INPUTS.sum(dim=1) > 0).long())
STEPS = 18


def build(fails: bool = False) -> autoaccel.Training:
    """Return the training."""
    made = []

    def step(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
        made.append(1)
        if fails and len(made) == STEPS and (not distributed.is_initialized() or distributed.get_rank() % 2):
            raise RuntimeError("the last step fails")
        inputs, target = batch
        return nn.functional.cross_entropy(model(inputs), target)

    return autoaccel.Training(
        model=nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)),
        train_data=DATA,
        eval_data=DATA,
        batch_size=16,
        epochs=3,
        step=step,
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=1e-2),
        evaluate="accuracy",
    )


def build_failing() -> autoaccel.Training:
    """Return the one that fails."""
    return build(fails=True)
