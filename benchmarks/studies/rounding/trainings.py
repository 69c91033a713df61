"""Small trainings on real data that rounding is planted in: half of them set its limits, the others are held out.

The data ships with scikit-learn and with Python. Each training takes seconds on one core and ends at a learning rate of
nothing, so that its metric is not that of its last few batches.
"""

from __future__ import annotations

import functools
import math
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits, make_friedman1
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR
from torch.utils.data import TensorDataset

import autoaccel

Data = tuple[TensorDataset, TensorDataset]
CONTEXT = 32  # characters that a language model sees
SYMBOLS = 128  # ASCII


@functools.cache
def digits() -> Data:
    """Return handwritten digits (N, 1, 8, 8): 1,000 to train on, the others held out."""
    found = load_digits()
    order = torch.randperm(len(found.target), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(found.images, dtype=torch.float32)[order].unsqueeze(1) / 8 - 1
    labels = torch.tensor(found.target)[order]
    return TensorDataset(images[:1000], labels[:1000]), TensorDataset(images[1000:], labels[1000:])


@functools.cache
def friedman() -> Data:
    """Return Friedman's first regression problem: ten numbers, of which five matter, and one to predict."""
    inputs, target = make_friedman1(6000, noise=1.0, random_state=0)
    inputs, target = torch.tensor(inputs, dtype=torch.float32) * 2 - 1, torch.tensor(target, dtype=torch.float32) / 5
    return TensorDataset(inputs[:2000], target[:2000, None]), TensorDataset(inputs[2000:], target[2000:, None])


@functools.cache
def text() -> Data:
    """Return windows of Python's own documentation, as it ships with Python, and each a character later."""
    path = Path(sysconfig.get_path("stdlib")) / "pydoc_data" / "topics.py"
    characters = torch.tensor(list(path.read_bytes()[:400_000]), dtype=torch.long).clamp(max=SYMBOLS - 1)
    windows = characters[: len(characters) // (CONTEXT + 1) * (CONTEXT + 1)].view(-1, CONTEXT + 1)
    order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(0))
    windows = windows[order]
    train, held_out = windows[:6000], windows[6000:8000]
    return TensorDataset(train[:, :-1], train[:, 1:]), TensorDataset(held_out[:, :-1], held_out[:, 1:])


class Attention(nn.Module):
    """A block of a transformer."""

    def __init__(self, width: int, heads: int, causal: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads, self.causal, self.dropout = heads, causal, nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.queries_keys_values(self.norm1(x)).unflatten(-1, (3, self.heads, -1))  # (B, T, 3, heads, D)
        q, k, v = parts.permute(2, 0, 3, 1, 4)  # each (B, heads, T, D)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.dropout(self.mix(y.transpose(1, 2).flatten(2)))
        return x + self.dropout(self.narrow(functional.gelu(self.widen(self.norm2(x)))))


class CharGPT(nn.Module):
    """Two blocks over characters."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(SYMBOLS, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Attention(width, 4, causal=True) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, SYMBOLS)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        x = self.characters(characters) + self.places.weight  # (B, T, C)
        return self.head(self.norm(self.blocks(x)))


class PatchTransformer(nn.Module):
    """Two blocks over the sixteen patches of a digit, with dropout."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.patches, self.places = nn.Conv2d(1, width, 2, stride=2), nn.Embedding(16, width)
        self.blocks = nn.Sequential(*(Attention(width, 4, causal=False, dropout=0.1) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2) + self.places.weight  # (B, 16, C)
        return self.head(self.norm(self.blocks(x)).mean(dim=1))


class NextCharacter(nn.Module):
    """The next character from the eight before it (Bengio et al., 2003)."""

    BEFORE = 8

    def __init__(self, width: int = 24, hidden: int = 192) -> None:
        super().__init__()
        self.characters = nn.Embedding(SYMBOLS, width)
        self.hidden, self.head = nn.Linear(self.BEFORE * width, hidden), nn.Linear(hidden, SYMBOLS)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        x = self.characters(characters).unfold(1, self.BEFORE, 1)  # (B, T - 7, C, 8)
        return self.head(torch.tanh(self.hidden(x.flatten(2))))


class Residual(nn.Module):
    """A residual block with batch normalisation, of two convolutions or, narrow between wide ones, of three."""

    def __init__(self, before: int, after: int, stride: int, narrow: int | None = None) -> None:
        super().__init__()
        if narrow is None:
            shapes = [(before, after, 3, stride), (after, after, 3, 1)]
        else:
            shapes = [(before, narrow, 1, 1), (narrow, narrow, 3, stride), (narrow, after, 1, 1)]
        layers: list[nn.Module] = []
        for inputs, outputs, size, step in shapes:
            convolution = nn.Conv2d(inputs, outputs, size, step, size // 2, bias=False)
            layers += [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])
        self.shortcut = nn.Sequential()
        if before != after or stride > 1:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.layers(x) + self.shortcut(x))


def language_loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of the characters that were predicted: the last ones."""
    return functional.cross_entropy(logits.flatten(0, 1), target[:, -logits.shape[1] :].flatten())


def language_metric(model: nn.Module, loader: Any) -> float:
    """Return the loss on held-out text."""
    losses = [(len(target), language_loss(model(inputs), target).item()) for inputs, target in loader]
    return sum(count * loss for count, loss in losses) / sum(count for count, _ in losses)


def _training(data: Data, epochs: int, batch_size: int, **others: Any) -> autoaccel.Training:
    steps = epochs * (len(data[0]) // batch_size)

    def rate(step: int) -> float:
        """Return the share of the learning rate: a short warm-up, then a cosine to nothing."""
        return min(1.0, (step + 1) / (0.05 * steps)) * (1 + math.cos(math.pi * min(1.0, step / steps))) / 2

    return autoaccel.Training(
        train_data=data[0],
        eval_data=data[1],
        epochs=epochs,
        batch_size=batch_size,
        drop_last=True,
        **{"scheduler": lambda optimizer: LambdaLR(optimizer, rate), "scheduler_interval": "step", **others},
    )


def digits_convolutions() -> autoaccel.Training:
    """Return convolutions with batch normalisation under Adam."""

    def block(before: int, after: int) -> list[nn.Module]:
        return [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]

    model = nn.Sequential(
        *block(1, 16), *block(16, 16), nn.MaxPool2d(2), *block(16, 32), nn.Flatten(), nn.Linear(512, 10)
    )
    return _training(
        digits(), 12, 32, model=model, loss=functional.cross_entropy, evaluate="accuracy",
        optimizer=lambda params: torch.optim.Adam(params, lr=2e-3),
    )  # fmt: skip


def _residual(blocks: list[nn.Module], before: int, after: int, epochs: int) -> autoaccel.Training:
    """Return residual blocks over digits of 16 x 16, under momentum at its full rate from the first step."""
    model = nn.Sequential(
        nn.Upsample(scale_factor=2), nn.Conv2d(1, before, 3, padding=1, bias=False), nn.BatchNorm2d(before), nn.ReLU(),
        *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(after, 10),
    )  # fmt: skip
    return _training(
        digits(), epochs, 32, model=model, loss=functional.cross_entropy, evaluate="accuracy",
        optimizer=lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.9, weight_decay=1e-4),
        scheduler=lambda optimizer: CosineAnnealingLR(optimizer, epochs), scheduler_interval="epoch",
    )  # fmt: skip


def digits_residual() -> autoaccel.Training:
    """Return three residual blocks of two convolutions."""
    return _residual([Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2)], 16, 64, 6)


def digits_bottlenecks() -> autoaccel.Training:
    """Return the sixteen bottlenecks of ResNet-50 (He et al., 2015), a sixteenth as wide."""
    blocks: list[nn.Module] = []
    before = 4
    for narrow, count in ((4, 3), (8, 4), (16, 6), (32, 3)):
        for place in range(count):
            stride = 2 if place == 0 and narrow > 4 else 1
            blocks.append(Residual(before, 4 * narrow, stride, narrow))
            before = 4 * narrow
    return _residual(blocks, 4, before, 6)


def char_gpt() -> autoaccel.Training:
    """Return a small GPT under AdamW."""
    return _training(
        text(), 1, 32, model=CharGPT(), loss=language_loss, evaluate=language_metric, direction="minimize",
        optimizer=lambda params: torch.optim.AdamW(params, lr=3e-3, betas=(0.9, 0.99), weight_decay=0.1),
    )  # fmt: skip


def friedman_perceptron() -> autoaccel.Training:
    """Return a regression under stochastic gradient descent with momentum."""
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    return _training(
        friedman(), 12, 32, model=model, loss=functional.mse_loss, evaluate="mse",
        optimizer=lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.9, weight_decay=1e-4),
    )  # fmt: skip


def digits_perceptron() -> autoaccel.Training:
    """Return layer normalisation under Nesterov's momentum, with a rate that falls by epochs."""
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(),
        nn.Linear(128, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 10),
    )  # fmt: skip
    return _training(
        digits(), 15, 32, model=model, loss=functional.cross_entropy, evaluate="accuracy",
        optimizer=lambda params: torch.optim.SGD(params, lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-3),
        scheduler=lambda optimizer: CosineAnnealingLR(optimizer, 15), scheduler_interval="epoch",
    )  # fmt: skip


def next_character() -> autoaccel.Training:
    """Return an embedding and a hidden layer under Adam, with clipped gradients."""
    return _training(
        text(), 3, 32, model=NextCharacter(), loss=language_loss, evaluate=language_metric, direction="minimize",
        optimizer=lambda params: torch.optim.Adam(params, lr=3e-3), clip=autoaccel.Clip(norm=0.5),
    )  # fmt: skip


def digits_patches() -> autoaccel.Training:
    """Return a transformer over patches with dropout, under AdamW."""
    return _training(
        digits(), 10, 32, model=PatchTransformer(), loss=functional.cross_entropy, evaluate="accuracy",
        optimizer=lambda params: torch.optim.AdamW(params, lr=2e-3, weight_decay=0.05),
    )  # fmt: skip


SETTING: dict[str, Callable[[], autoaccel.Training]] = {
    "digits_convolutions": digits_convolutions,
    "digits_residual": digits_residual,
    "char_gpt": char_gpt,
    "friedman_perceptron": friedman_perceptron,
}
"""Those that limits are set on."""

HELD_OUT: dict[str, Callable[[], autoaccel.Training]] = {
    "digits_perceptron": digits_perceptron,
    "next_character": next_character,
    "digits_patches": digits_patches,
    "digits_bottlenecks": digits_bottlenecks,
}
"""Those that are only judged by them."""
