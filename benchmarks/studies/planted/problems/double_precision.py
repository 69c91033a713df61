"""Planted: data from numpy, in double precision, and a model made to fit it."""

import numpy
import torch
from torch import nn
from torch.utils.data import TensorDataset

import autoaccel


def training(dtype: torch.dtype) -> autoaccel.Training:
    inputs = torch.from_numpy(numpy.random.default_rng(0).normal(size=(2048, 1024))).to(dtype)
    data = TensorDataset(inputs, (inputs.sum(dim=1) > 0).long())
    model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 2))
    return autoaccel.Training(
        model=model.to(dtype), train_data=data, eval_data=data, batch_size=256, epochs=5, loss=nn.CrossEntropyLoss(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01), evaluate="accuracy",
    )  # fmt: skip


def build() -> autoaccel.Training:
    """Return the training with the problem."""
    return training(torch.float64)


def fixed() -> autoaccel.Training:
    """Return it without."""
    return training(torch.float32)
