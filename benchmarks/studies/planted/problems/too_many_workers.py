"""Planted: many loader workers for samples that cost nothing, on few cores."""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import autoaccel


def training(workers: int) -> autoaccel.Training:
    inputs = torch.randn(8192, 256, generator=torch.Generator().manual_seed(0))
    data = TensorDataset(inputs, (inputs.sum(dim=1) > 0).long())
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 2))
    return autoaccel.Training(
        model=model, train_data=lambda: DataLoader(data, batch_size=64, shuffle=True, num_workers=workers),
        eval_data=data, batch_size=64, epochs=5, loss=nn.CrossEntropyLoss(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01), evaluate="accuracy",
        settings={"loader.workers": workers, "threads.intra_op": 1},
    )  # fmt: skip


def build() -> autoaccel.Training:
    """Return the training with the problem."""
    return training(4 * (os.cpu_count() or 1))


def fixed() -> autoaccel.Training:
    """Return it without."""
    return training(0)
