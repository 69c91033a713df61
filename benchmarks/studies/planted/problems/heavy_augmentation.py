"""Planted: large pictures are blurred whole, and a small part of them is cut out afterwards."""

import numpy
import torch
from torch import nn
from torch.utils.data import Dataset

import autoaccel

SIDE, CUT = 384, 32


def blur(picture: numpy.ndarray) -> numpy.ndarray:
    """Return the picture, each pixel the mean of itself and its 24 neighbours."""
    rows = sum(numpy.roll(picture, shift, axis=0) for shift in range(-2, 3))
    return sum(numpy.roll(rows, shift, axis=1) for shift in range(-2, 3)) / 25


def cut(picture: numpy.ndarray) -> numpy.ndarray:
    """Return the middle."""
    start = (SIDE - CUT) // 2
    return picture[start : start + CUT, start : start + CUT]


class Pictures(Dataset):
    """Random pictures, bright or dark."""

    def __init__(self, cuts_first: bool) -> None:
        self.cuts_first = cuts_first
        self.pictures = numpy.random.default_rng(0).normal(size=(16, SIDE, SIDE)).astype(numpy.float32)

    def __len__(self) -> int:
        return 1024

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        picture = self.pictures[index % 16] + index % 2
        picture = blur(cut(picture)) if self.cuts_first else cut(blur(picture))
        return torch.from_numpy(numpy.ascontiguousarray(picture[None])), index % 2


def training(cuts_first: bool) -> autoaccel.Training:
    model = nn.Sequential(nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 2))
    return autoaccel.Training(
        model=model, train_data=Pictures(cuts_first), eval_data=Pictures(True), batch_size=32, epochs=5,
        loss=nn.CrossEntropyLoss(), optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
        evaluate="accuracy",
        # Small tensors: several threads would only wait for each other.
        settings={"threads.intra_op": 1},
    )  # fmt: skip


def build() -> autoaccel.Training:
    """Return the training with the problem."""
    return training(cuts_first=False)


def fixed() -> autoaccel.Training:
    """Return it without."""
    return training(cuts_first=True)
