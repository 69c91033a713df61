"""Planted: one thread on a computer with several cores."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import autoaccel


def training(**settings: int) -> autoaccel.Training:
    inputs = torch.randn(2048, 1024, generator=torch.Generator().manual_seed(0))
    data = TensorDataset(inputs, (inputs.sum(dim=1) > 0).long())
    model = nn.Sequential(nn.Linear(1024, 2048), nn.Tanh(), nn.Linear(2048, 2048), nn.Tanh(), nn.Linear(2048, 2))
    return autoaccel.Training(
        model=model, train_data=data, eval_data=data, batch_size=256, epochs=5, loss=nn.CrossEntropyLoss(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01), evaluate="accuracy",
        settings={name.replace("_", ".", 1): value for name, value in settings.items()},
    )  # fmt: skip


def build() -> autoaccel.Training:
    """Return the training with the problem."""
    return training(threads_intra_op=1)


def fixed() -> autoaccel.Training:
    """Return it without."""
    return training()
