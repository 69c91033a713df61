"""A small training like every_knob.py without attention, around which NNI cannot remove channels: a convolution
before batch normalisation, and blocks that repeat."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import autoaccel

WIDTH = 16


class Block(nn.Module):
    """Two convolutions with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.second = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(x + self.second(functional.relu(self.first(x))))


class Net(nn.Module):
    """A convolution, two blocks, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, WIDTH, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.norm(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=(2, 3)))


def build() -> autoaccel.Training:
    """Return the training."""
    images = torch.randn(512, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    targets = images.mean(dim=(1, 2, 3)).gt(0).long()
    data = TensorDataset(images, targets)
    return autoaccel.Training(
        model=Net(),
        train_data=data,
        eval_data=data,
        batch_size=32,
        epochs=3,
        loss=nn.CrossEntropyLoss(),
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        evaluate="accuracy",
    )
