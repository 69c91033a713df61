"""Lines of Python's standard library: padded to the longest of their batch, or one text that is read on."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

import autoaccel

SYMBOLS = 128  # ASCII; 0 is padding
MODULES = ("argparse", "ast", "datetime", "decimal", "difflib", "doctest", "inspect", "pickle", "tarfile", "typing",
           "turtle", "subprocess", "statistics", "smtplib", "pydoc", "pdb")  # fmt: skip
LONGEST = 120  # characters of a line
EVERY = 5  # one line of so many is held out


class Lines(Dataset):
    """Lines as numbers, each with the module that it comes from."""

    def __init__(self, lines: list[tuple[list[int], int]]) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> tuple[list[int], int]:
        return self.lines[index]


class Text(Dataset):
    """Windows of a text, each with the same window one character later."""

    def __init__(self, text: torch.Tensor, window: int) -> None:
        self.text, self.window = text, window

    def __len__(self) -> int:
        return (len(self.text) - 1) // self.window

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        window = self.text[index * self.window : (index + 1) * self.window + 1]
        return window[:-1], window[1:]


class Recurrent(nn.Module):
    """A recurrent network that reads a line from both ends."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, 64, padding_idx=0)
        self.reader = nn.GRU(64, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, len(MODULES))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        read, _ = self.reader(self.symbols(text))  # (B, T, 2C)
        return self.head(read.amax(1))


class Encoder(nn.Module):
    """A transformer that does not look at padding."""

    def __init__(self, width: int = 128, depth: int = 3) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, width, padding_idx=0)
        self.places = nn.Parameter(0.02 * torch.randn(LONGEST, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(MODULES))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        padding = text == 0
        read = self.layers(self.symbols(text) + self.places[: text.shape[1]], src_key_padding_mask=padding)
        return self.head(read.masked_fill(padding.unsqueeze(2), 0).sum(1) / (~padding).sum(1, keepdim=True))


class Convolutions(nn.Module):
    """Convolutions over characters, three wide and dilated."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, width, padding_idx=0)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 3, padding=2**n, dilation=2**n) for n in range(4))
        self.head = nn.Linear(width, len(MODULES))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.symbols(text).transpose(1, 2)  # (B, C, T)
        for layer in self.layers:
            x = x + functional.gelu(layer(x))
        return self.head(x.amax(2))


class Characters(nn.Module):
    """A language model of two LSTM layers over characters."""

    def __init__(self, width: int = 192) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, width)
        self.reader = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, SYMBOLS)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.head(self.reader(self.symbols(text))[0])


def sources(name: str) -> str:
    """Return the source of a module of the standard library, in ASCII."""
    path = Path(sysconfig.get_path("stdlib")) / f"{name}.py"
    return path.read_text("utf-8").encode("ascii", "ignore").decode()


def load_lines() -> tuple[Lines, Lines]:
    """Return the lines to learn from, and those that are held out."""
    lines = [
        ([ord(one) for one in line[:LONGEST]], number)
        for number, name in enumerate(MODULES)
        for line in sources(name).splitlines()
        if len(line.strip()) > 10
    ]
    return Lines([one for n, one in enumerate(lines) if n % EVERY]), Lines(lines[::EVERY][:600])


def padded(samples: list[tuple[list[int], int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return lines as one batch (B, T), filled up to the longest, and where they come from (B,)."""
    rows = [torch.tensor(line) for line, _ in samples]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([module for _, module in samples])


def of_lines(model: nn.Module, epochs: int, batch: int) -> autoaccel.Training:
    """Return the training of a model that says where lines come from."""
    train, held_out = load_lines()
    return autoaccel.Training(
        model=model,
        train_data=train,
        eval_data=held_out,
        loss=functional.cross_entropy,
        optimizer=lambda params: torch.optim.AdamW(params, lr=1e-3),
        clip=autoaccel.Clip(norm=1.0),
        evaluate="accuracy",
        epochs=epochs,
        batch_size=batch,
        collate_fn=padded,
    )


def next_loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of the next character, in nats."""
    return functional.cross_entropy(logits.flatten(0, 1), target.flatten())


def held_out_loss(model: nn.Module, loader) -> float:
    """Return the loss per character of the held-out text."""
    found = [(next_loss(model(text), target).item(), len(text)) for text, target in loader]
    return sum(value * count for value, count in found) / sum(count for _, count in found)


def padded_recurrent() -> autoaccel.Training:
    """Return a recurrent network on padded lines."""
    return of_lines(Recurrent(128), 2, 32)


def padded_encoder() -> autoaccel.Training:
    """Return a transformer on padded lines."""
    return of_lines(Encoder(), 1, 48)


def padded_convolutions() -> autoaccel.Training:
    """Return convolutions on padded lines."""
    return of_lines(Convolutions(), 2, 48)


def read_on() -> autoaccel.Training:
    """Return a language model whose steps are many small operators: two ranks are in its reach."""
    text = torch.tensor([ord(one) for name in MODULES[:8] for one in sources(name)])
    return autoaccel.Training(
        model=Characters(),
        train_data=Text(text[:-20_000], 64),
        eval_data=Text(text[-20_000:], 64),
        loss=next_loss,
        optimizer=lambda params: torch.optim.Adam(params, lr=2e-3),
        clip=autoaccel.Clip(norm=1.0),
        evaluate=held_out_loss,
        direction="minimize",
        epochs=4,
        batch_size=32,
        drop_last=True,
    )
