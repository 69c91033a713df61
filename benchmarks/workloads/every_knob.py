"""A small training that gives every knob something to do: convolutions before batch normalisation, blocks that repeat,
attention, an optimizer of every form, and samples that are the same each time."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import autoaccel

WIDTH, HEADS = 32, 2


class Block(nn.Module):
    """Attention and a small network, each with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.project = nn.Linear(WIDTH, 3 * WIDTH)
        self.network = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape  # noqa: N806  # as in papers
        shape = (B, T, HEADS, C // HEADS)
        query, key, value = (part.reshape(shape).transpose(1, 2) for part in self.project(self.norm(x)).chunk(3, dim=2))
        attended = functional.scaled_dot_product_attention(query, key, value)
        x = x + attended.transpose(1, 2).reshape(B, T, C)
        return x + self.network(x)


class Net(nn.Module):
    """Convolutions, then two blocks over the pixels that are left."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, WIDTH, 3, stride=2, padding=1),
            nn.BatchNorm2d(WIDTH),
        )
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)  # (B, T, C)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=1))


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
