"""A language model of two LSTM layers of 512 on the docstrings and comments of Python's standard library.

Stands for: a recurrent network with a large softmax, as in PyTorch's word language model example.
On two cores: 0.8 s a step, about 1,750 steps, 23 minutes.
A user cares about: the loss per word on text that was held out.
"""

import collections
import re
import sysconfig
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

import autoaccel

WORDS = 10_000  # in the vocabulary; the last stands for all others
CONTEXT = 48  # words, T
WIDTH = 512  # C
EVAL_WINDOWS = 256
EPOCHS = 8
BATCH_SIZE = 32


class Windows(Dataset):
    """Every stretch of CONTEXT words, one after the other, each with the same stretch one word later."""

    def __init__(self, words: torch.Tensor) -> None:
        self.words = words  # (N,)

    def __len__(self) -> int:
        return (len(self.words) - 1) // CONTEXT

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        window = self.words[index * CONTEXT : (index + 1) * CONTEXT + 1]
        return window[:-1], window[1:]  # (T,), (T,)


class WordModel(nn.Module):
    """Embedding, LSTM, and a softmax whose weights are the embedding's (Press and Wolf, 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, num_layers=2, dropout=0.3, batch_first=True)
        self.dropout = nn.Dropout(0.3)
        self.bias = nn.Parameter(torch.zeros(WORDS))
        nn.init.uniform_(self.words.weight, -0.1, 0.1)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x, _ = self.lstm(self.dropout(self.words(text)))  # (B, T) -> (B, T, C)
        return functional.linear(self.dropout(x), self.words.weight, self.bias)  # (B, T, WORDS)


def load_words() -> torch.Tensor:
    """Return the words of all docstrings and comments, one number each."""
    text = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        # The modules differ from Python to Python; losses compare only on the same one.
        text += re.findall(r'"""(.*?)"""|# ([^\n]*)', path.read_text("utf-8", errors="replace"), re.DOTALL)
    words = re.findall(r"\w+|[^\w\s]", "\n".join(docstring or comment for docstring, comment in text).lower())
    known = {word: number for number, (word, _) in enumerate(collections.Counter(words).most_common(WORDS - 1))}
    return torch.tensor([known.get(word, WORDS - 1) for word in words])


def loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of the next word, in nats."""
    return functional.cross_entropy(logits.flatten(0, 1), target.flatten())


def val_loss(model: nn.Module, loader) -> float:
    """Return the loss per word on the held-out text."""
    losses = [(loss(model(text), target).item(), len(text)) for text, target in loader]
    return sum(value * count for value, count in losses) / sum(count for _, count in losses)


def build() -> autoaccel.Training:
    """Return the training."""
    words = load_words()
    held_out = EVAL_WINDOWS * CONTEXT + 1
    return autoaccel.Training(
        model=WordModel(),
        train_data=Windows(words[:-held_out]),
        eval_data=Windows(words[-held_out:]),
        loss=loss,
        optimizer=lambda params: torch.optim.Adam(params, lr=2e-3),
        clip=autoaccel.Clip(norm=0.5),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS),
        evaluate=val_loss,
        direction="minimize",
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        drop_last=True,
    )
