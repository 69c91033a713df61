"""A small residual network on scikit-learn's handwritten digits, as large as CIFAR's images.

Convolutions between batch normalisations: what precision, memory layout and compilation were made for.
"""

import dataclasses

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import autoaccel

EPOCHS = 10
BATCH_SIZE = 32


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.around = nn.Conv2d(before, after, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = functional.relu(self.norm1(self.conv1(x)))  # (B, after, H / stride, W / stride)
        return functional.relu(self.norm2(self.conv2(inner)) + self.around(x))


class SmallResNet(nn.Module):
    """Three pairs of blocks, 32 to 128 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(32)
        self.blocks = nn.Sequential(
            Block(32, 32, 1),
            Block(32, 32, 1),
            Block(32, 64, 2),
            Block(64, 64, 1),
            Block(64, 128, 2),
            Block(128, 128, 1),
        )
        self.head = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.norm(self.stem(x)))  # (B, 3, 32, 32) -> (B, 32, 32, 32)
        x = self.blocks(x)  # (B, 128, 8, 8)
        return self.head(x.mean((2, 3)))  # (B, 10)


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """Return the training and the held-out digits."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    images = functional.interpolate(images, size=(32, 32), mode="bilinear", align_corners=False)
    images = images.repeat(1, 3, 1, 1) - 0.3  # (N, 3, 32, 32)
    labels = torch.tensor(digits.target)
    train, held_out = train_test_split(range(len(labels)), test_size=0.25, stratify=digits.target, random_state=0)
    return TensorDataset(images[train], labels[train]), TensorDataset(images[held_out], labels[held_out])


def build() -> autoaccel.Training:
    """Return the training: 420 steps."""
    train_data, eval_data = load_data()
    return autoaccel.Training(
        model=SmallResNet(),
        train_data=train_data,
        eval_data=eval_data,
        loss=functional.cross_entropy,
        optimizer=lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.9, weight_decay=5e-4),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS),
        evaluate="accuracy",
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        drop_last=True,
    )


def build_short() -> autoaccel.Training:
    """Return a training of 50 steps, which no compilation can repay."""
    return dataclasses.replace(build(), epochs=2, steps_per_epoch=25)


def build_long() -> autoaccel.Training:
    """Return a training of 50,000 steps, in which a compilation costs next to nothing."""
    return dataclasses.replace(build(), epochs=2000, steps_per_epoch=25)
