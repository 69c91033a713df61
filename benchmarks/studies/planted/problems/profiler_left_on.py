"""Planted: a function that watches each call, as coverage and line profilers install it."""

import sys
from collections import Counter

import torch
from torch import nn

import autoaccel

CALLS: Counter[str] = Counter()


def watch(frame, event, argument) -> None:
    CALLS[frame.f_code.co_name] += 1


def training() -> autoaccel.Training:
    inputs = torch.randn(2048, 32, generator=torch.Generator().manual_seed(0))
    batches = list(zip(inputs.split(32), (inputs.sum(dim=1) > 0).long().split(32), strict=True))
    layers = [layer for _ in range(30) for layer in (nn.Linear(32, 32), nn.ReLU())]
    return autoaccel.Training(
        model=nn.Sequential(*layers, nn.Linear(32, 2)), train_data=lambda: batches, eval_data=lambda: batches,
        epochs=5, loss=nn.CrossEntropyLoss(), optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
        evaluate="accuracy",
        # Small tensors: several threads would only wait for each other.
        settings={"threads.intra_op": 1},
    )  # fmt: skip


def build() -> autoaccel.Training:
    """Return the training with the problem."""
    sys.setprofile(watch)
    return training()


def fixed() -> autoaccel.Training:
    """Return it without."""
    return training()
