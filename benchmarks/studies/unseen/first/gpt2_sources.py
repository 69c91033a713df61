"""A GPT-2 of 8 layers of 384 on the source text of Python's standard library, a word or a sign for a token.

Stands for: pretraining a small language model at home.
On two cores: 2 s a step, about 2,200 steps, an hour and a quarter.
A user cares about: the loss on modules that were held out, and an evening instead of a night.
"""

import collections
import math
import re
import sysconfig
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel

import autoaccel

WORDS = 8192  # in the vocabulary; the last stands for all others
CONTEXT = 256  # tokens, T
EVAL_WINDOWS = 64
EPOCHS = 3
BATCH_SIZE = 8


def load_tokens() -> torch.Tensor:
    """Return the modules of the standard library one after the other, a number for each word, sign and space."""
    # The modules differ from Python to Python; losses compare only on the same one.
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    tokens = [
        token
        for path in paths
        for token in re.findall(r"\w+|\n +| +|\n|[^\w\s]", path.read_text("utf-8", errors="replace"))
    ]
    known = {token: number for number, (token, _) in enumerate(collections.Counter(tokens).most_common(WORDS - 1))}
    return torch.tensor([known.get(token, WORDS - 1) for token in tokens])


class Windows(Dataset):
    """Every stretch of CONTEXT tokens, one after the other."""

    def __init__(self, tokens: torch.Tensor) -> None:
        self.tokens = tokens[: len(tokens) // CONTEXT * CONTEXT].view(-1, CONTEXT)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}  # the model shifts the labels itself


def loss_of(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the mean cross-entropy of the next token, in nats."""
    return model(**batch).loss


def val_loss(model: nn.Module, loader) -> float:
    """Return the loss on the held-out text."""
    losses = [(loss_of(model, batch).item(), len(batch["input_ids"])) for batch in loader]
    return sum(loss * count for loss, count in losses) / sum(count for _, count in losses)


def build() -> autoaccel.Training:
    """Return the training."""
    tokens = load_tokens()
    held_out = EVAL_WINDOWS * CONTEXT  # the end: whole modules that the model has never seen
    train_data = Windows(tokens[:-held_out])
    steps = EPOCHS * (len(train_data) // BATCH_SIZE)
    warmup = max(1, steps // 20)

    def rate(step: int) -> float:
        """Return the learning rate as a fraction of the highest: linear warm-up, then a cosine to a tenth."""
        progress = min(1.0, max(0, step - warmup) / max(1, steps - warmup))
        return min(1.0, (step + 1) / warmup) * (0.55 + 0.45 * math.cos(math.pi * progress))

    config = GPT2Config(vocab_size=WORDS, n_positions=CONTEXT, n_embd=384, n_layer=8, n_head=6, use_cache=False)
    return autoaccel.Training(
        model=GPT2LMHeadModel(config),
        train_data=train_data,
        eval_data=Windows(tokens[-held_out:]),
        step=loss_of,
        optimizer=lambda params: torch.optim.AdamW(params, lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1),
        clip=autoaccel.Clip(norm=1.0),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, rate),
        scheduler_interval="step",
        evaluate=val_loss,
        direction="minimize",
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        drop_last=True,
    )
