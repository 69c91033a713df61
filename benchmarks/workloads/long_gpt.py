"""A byte-level GPT of 19 million weights on the text of Python's standard library: steps take seconds on a CPU."""

import sysconfig
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

import autoaccel

TEXT_BYTES = 2_000_000
CONTEXT = 256  # T
WIDTH = 512  # C
HEADS = 8
LAYERS = 6
BATCH_SIZE = 8


class Windows(Dataset):
    """Every stretch of CONTEXT bytes, one after the other, each with the same stretch one byte later."""

    def __init__(self, text: torch.Tensor) -> None:
        self.text = text  # (N,)

    def __len__(self) -> int:
        return (len(self.text) - 1) // CONTEXT

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        start = index * CONTEXT
        window = self.text[start : start + CONTEXT + 1].long()
        return window[:-1], window[1:]  # (T,), (T,)


class LongGPT(nn.Module):
    """A decoder-only transformer over bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = nn.Embedding(256, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        block = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 256)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1], device=text.device)
        x = self.bytes(text) + self.places.weight[: text.shape[1]]  # (B, T) -> (B, T, C)
        return self.head(self.blocks(x, mask=mask, is_causal=True))  # (B, T, 256)


def load_text() -> torch.Tensor:
    """Return the beginning of the standard library's source text."""
    text = bytearray()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text += path.read_bytes()
    return torch.frombuffer(text[:TEXT_BYTES], dtype=torch.uint8)


def loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of the next byte, in nats."""
    return functional.cross_entropy(logits.flatten(0, 1), target.flatten())


def val_loss(model: nn.Module, loader) -> float:
    """Return the loss per byte on the held-out text."""
    losses = [loss(model(text), target).item() for text, target in loader]
    return sum(losses) / len(losses)


def build() -> autoaccel.Training:
    """Return the training: four passes over the text, about 4,000 steps."""
    text = load_text()
    held_out = 32 * CONTEXT + 1
    return autoaccel.Training(
        model=LongGPT(),
        train_data=Windows(text[:-held_out]),
        eval_data=Windows(text[-held_out:]),
        loss=loss,
        optimizer=lambda params: torch.optim.AdamW(params, lr=3e-4),
        evaluate=val_loss,
        direction="minimize",
        epochs=4,
        batch_size=BATCH_SIZE,
        drop_last=True,
    )
