"""Planted: autograd's anomaly mode was left on."""

import torch
from torch import nn

import autoaccel


def training() -> autoaccel.Training:
    inputs = torch.randn(2048, 64, generator=torch.Generator().manual_seed(0))
    batches = list(zip(inputs.split(64), (inputs.sum(dim=1) > 0).long().split(64), strict=True))
    layers = [layer for _ in range(12) for layer in (nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU())]
    return autoaccel.Training(
        model=nn.Sequential(*layers, nn.Linear(64, 2)), train_data=lambda: batches, eval_data=lambda: batches,
        epochs=5, loss=nn.CrossEntropyLoss(), optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
        evaluate="accuracy",
        # Small tensors: several threads would only wait for each other.
        settings={"threads.intra_op": 1},
    )  # fmt: skip


def build() -> autoaccel.Training:
    """Return the training with the problem."""
    torch.autograd.set_detect_anomaly(True)
    return training()


def fixed() -> autoaccel.Training:
    """Return it without."""
    return training()
