"""Rules that are learned suddenly and late, and tables whose small networks two ranks could share."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset, TensorDataset

import autoaccel

BITS, COUNTED = 20, 3  # of a row; of them decide on its parity
LENGTH, LETTERS = 16, 32  # of a word that is reversed


class Reverser(nn.Module):
    """A transformer that writes each place of a word backwards at once."""

    def __init__(self, width: int = 128, depth: int = 3) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, LETTERS)

    def forward(self, word: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.letters(word) + self.places))


class Tower(nn.Module):
    """Many narrow layers beside shortcuts, each normalised."""

    def __init__(self, inputs: int, width: int, depth: int, outputs: int) -> None:
        super().__init__()
        self.begin = nn.Linear(inputs, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.begin(x)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + functional.gelu(layer(norm(x)))
        return self.head(x)


def parity_rows(count: int, seed: int) -> TensorDataset:
    """Return rows of -1 and 1 (N, BITS), and whether the first few multiply to 1 (N,)."""
    rows = torch.randint(2, (count, BITS), generator=torch.Generator().manual_seed(seed)).float() * 2 - 1
    return TensorDataset(rows, (rows[:, :COUNTED].prod(1) > 0).long())


def words(count: int, seed: int) -> Dataset:
    """Return words (N, LENGTH), and the same backwards."""
    found = torch.randint(LETTERS, (count, LENGTH), generator=torch.Generator().manual_seed(seed))
    return TensorDataset(found, found.flip(1))


def letters_loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of a letter."""
    return functional.cross_entropy(logits.flatten(0, 1), target.flatten())


def whole_words(model: nn.Module, loader) -> float:
    """Return the share of words that are right from end to end."""
    right = [(model(word).argmax(2) == target).all(1) for word, target in loader]
    return torch.cat(right).float().mean().item()


def worst_third(model: nn.Module, loader) -> float:
    """Return the accuracy of the class that is recognised worst."""
    found = [(model(rows).argmax(1) == labels, labels) for rows, labels in loader]
    right, labels = torch.cat([one for one, _ in found]).float(), torch.cat([one for _, one in found])
    return min(right[labels == one].mean().item() for one in labels.unique())


def late_parity() -> autoaccel.Training:
    """Return a wide network that guesses for a long time, until it has found the parity."""
    return autoaccel.Training(
        model=nn.Sequential(nn.Linear(BITS, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2)),
        train_data=parity_rows(16_384, 0),
        eval_data=parity_rows(2_048, 1),
        loss=functional.cross_entropy,
        optimizer=lambda params: torch.optim.AdamW(params, lr=1e-4, weight_decay=0.1),
        evaluate="accuracy",
        epochs=8,
        batch_size=64,
    )


def late_words() -> autoaccel.Training:
    """Return a transformer that reverses words: none is right from end to end until nearly all are."""
    return autoaccel.Training(
        model=Reverser(),
        train_data=words(24_000, 0),
        eval_data=words(800, 1),
        loss=letters_loss,
        optimizer=lambda params: torch.optim.AdamW(params, lr=1e-3),
        evaluate=whole_words,
        epochs=4,
        batch_size=64,
    )


def scattered_classes() -> autoaccel.Training:
    """Return a tower on three clouds that overlap, judged by the class that is recognised worst."""
    chance = torch.Generator().manual_seed(2)
    labels = torch.randint(3, (9_000,), generator=chance)
    rows = torch.randn(9_000, 64, generator=chance) + 0.35 * torch.eye(3, 64)[labels] * 4
    train, held_out = TensorDataset(rows[400:], labels[400:]), TensorDataset(rows[:400], labels[:400])
    return autoaccel.Training(
        model=Tower(64, 256, 8, 3),
        train_data=train,
        eval_data=held_out,
        loss=functional.cross_entropy,
        optimizer=lambda params: torch.optim.AdamW(params, lr=2e-3),
        evaluate=worst_third,
        epochs=60,
        batch_size=64,
    )


def narrow_tower() -> autoaccel.Training:
    """Return a deep, narrow tower whose operators are too small for two threads: two ranks are in its reach."""
    chance = torch.Generator().manual_seed(3)
    rows = torch.randn(20_000, 48, generator=chance)
    labels = (torch.sin(2 * rows[:, :8]).sum(1) + 0.3 * torch.randn(20_000, generator=chance) > 0).long()
    return autoaccel.Training(
        model=Tower(48, 128, 24, 2),
        train_data=TensorDataset(rows[2_000:], labels[2_000:]),
        eval_data=TensorDataset(rows[:2_000], labels[:2_000]),
        loss=functional.cross_entropy,
        optimizer=lambda params: torch.optim.AdamW(params, lr=1e-3),
        evaluate="accuracy",
        epochs=40,
        batch_size=256,
    )
