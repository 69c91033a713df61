"""Planted: one sample per step."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import autoaccel


def training(batch_size: int) -> autoaccel.Training:
    inputs = torch.randn(2048, 64, generator=torch.Generator().manual_seed(0))
    data = TensorDataset(inputs, (inputs.sum(dim=1) > 0).long())
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
    return autoaccel.Training(
        model=model, train_data=data, eval_data=data, batch_size=batch_size, epochs=5, loss=nn.CrossEntropyLoss(),
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=1e-3), evaluate="accuracy",
        # Small tensors: several threads would only wait for each other.
        settings={"threads.intra_op": 1},
    )  # fmt: skip


def build() -> autoaccel.Training:
    """Return the training with the problem."""
    return training(1)


def fixed() -> autoaccel.Training:
    """Return it without."""
    return training(32)
