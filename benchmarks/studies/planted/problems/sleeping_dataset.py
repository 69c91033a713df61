"""Planted: each sample waits 0.3 ms, as one read from a disk would."""

import time

import torch
from torch import nn
from torch.utils.data import Dataset

import autoaccel


class Samples(Dataset):
    """Random vectors and the sign of their sum."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.inputs = torch.randn(2048, 64, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.seconds:
            time.sleep(self.seconds)
        return self.inputs[index], int(self.inputs[index].sum() > 0)


def training(seconds: float) -> autoaccel.Training:
    model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 2))
    return autoaccel.Training(
        model=model, train_data=Samples(seconds), eval_data=Samples(0.0), batch_size=32, epochs=5,
        loss=nn.CrossEntropyLoss(), optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
        evaluate="accuracy",
        # Small tensors: several threads would only wait for each other.
        settings={"threads.intra_op": 1},
    )  # fmt: skip


def build() -> autoaccel.Training:
    """Return the training with the problem."""
    return training(0.0003)


def fixed() -> autoaccel.Training:
    """Return it without."""
    return training(0.0)
