"""Trainings for a GPU on synthetic samples: ResNet-50 at 224 px, ResNet-18 at 32 px, a transformer of six layers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.utils.data import Dataset

import autoaccel

Sample = tuple[torch.Tensor, torch.Tensor]


class Synthetic(Dataset[Sample]):
    """As many samples as wanted, from a few that are kept: what counts is their shape."""

    def __init__(self, inputs: torch.Tensor, classes: int, length: int) -> None:
        self.inputs = inputs
        self.classes = classes
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Sample:
        return self.inputs[index % len(self.inputs)], torch.tensor(index % self.classes)


def training(model: nn.Module, inputs: torch.Tensor, classes: int, batch_size: int, steps: int) -> autoaccel.Training:
    """Return the training of a classifier on such samples for ten epochs of so many steps."""
    return autoaccel.Training(
        model=model,
        train_data=Synthetic(inputs, classes, batch_size * steps),
        eval_data=Synthetic(inputs, classes, 4 * batch_size),
        batch_size=batch_size,
        epochs=10,
        loss=nn.CrossEntropyLoss(),
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        evaluate="cross_entropy",
    )


class Transformer(nn.Module):
    """Six encoder layers over tokens, and a classifier over their mean."""

    def __init__(self, vocabulary: int = 8192, width: int = 512, classes: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.layers(self.embedding(tokens))  # (B, T, C)
        return self.head(x.mean(dim=1))


def resnet50() -> autoaccel.Training:
    """Return ResNet-50 at 224 px."""
    from torchvision.models import resnet50 as make

    return training(make(), torch.randn(128, 3, 224, 224), 1000, batch_size=64, steps=500)


def resnet18() -> autoaccel.Training:
    """Return ResNet-18 at 32 px."""
    from torchvision.models import resnet18 as make

    return training(make(num_classes=10), torch.randn(1024, 3, 32, 32), 10, batch_size=128, steps=1000)


def transformer() -> autoaccel.Training:
    """Return the transformer on sequences of 128 tokens."""
    return training(Transformer(), torch.randint(8192, (1024, 128)), 16, batch_size=32, steps=1000)


WORKLOADS: dict[str, Callable[[], autoaccel.Training]] = {
    "resnet50": resnet50,
    "resnet18": resnet18,
    "transformer": transformer,
}
