"""A BERT of 6 layers of 256 that says which package a passage of source text is from; padded batches of dicts.

Stands for: a text classifier on documents of many lengths, each batch padded to its longest.
On two cores: 1.6 s a step, with the length of the batch; about 600 steps, 16 minutes.
A user cares about: accuracy on passages that were held out.
"""

import collections
import random
import re
import sysconfig
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification

import autoaccel

# In every Python from 3.10 on, and each with enough text.
PACKAGES = ("asyncio", "email", "http", "importlib", "logging", "multiprocessing", "unittest", "urllib", "xml")
MAX_PASSAGES = 450  # of a package
WORDS = 8192  # in the vocabulary
PAD, START, OTHER = 0, 1, 2
LONGEST = 192  # tokens
EVAL_SHARE = 0.15
EPOCHS = 6
BATCH_SIZE = 32

Passage = tuple[list[str], int]


def load_passages() -> list[Passage]:
    """Return words and package of passages of 4 to 24 lines, in a random order that does not depend on the seed."""
    numbers = random.Random(0)
    found: list[Passage] = []
    for label, package in enumerate(PACKAGES):
        passages = []
        for path in sorted((Path(sysconfig.get_path("stdlib")) / package).rglob("*.py")):
            lines = path.read_text("utf-8", errors="replace").splitlines()
            while lines:
                count = numbers.randint(4, 24)
                words = re.findall(r"\w+|[^\w\s]", "\n".join(lines[:count]))[: LONGEST - 1]
                lines = lines[count:]
                if len(words) >= 12:
                    passages.append((words, label))
        found += numbers.sample(passages, min(MAX_PASSAGES, len(passages)))
    numbers.shuffle(found)
    return found


class Passages(Dataset):
    """Passages as numbers, by a vocabulary."""

    def __init__(self, passages: list[Passage], known: dict[str, int]) -> None:
        self.samples = [
            (torch.tensor([START, *(known.get(word, OTHER) for word in words)]), label) for words, label in passages
        ]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.samples[index]


def pad(samples: list[tuple[torch.Tensor, int]]) -> dict[str, torch.Tensor]:
    """Return a batch that is as long as its longest passage."""
    words = nn.utils.rnn.pad_sequence([words for words, _ in samples], batch_first=True, padding_value=PAD)  # (B, T)
    return {
        "input_ids": words,
        "attention_mask": (words != PAD).long(),
        "labels": torch.tensor([label for _, label in samples]),
    }


def loss_of(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the mean cross-entropy of the package."""
    return model(**batch).loss


def accuracy(model: nn.Module, loader) -> float:
    """Return the share of the held-out passages whose package is named."""
    hits = [model(**batch).logits.argmax(1) == batch["labels"] for batch in loader]
    return torch.cat(hits).float().mean().item()


def build() -> autoaccel.Training:
    """Return the training."""
    passages = load_passages()
    held_out = int(EVAL_SHARE * len(passages))
    counts = collections.Counter(word for words, _ in passages[held_out:] for word in words)
    known = {word: number for number, (word, _) in enumerate(counts.most_common(WORDS - OTHER - 1), start=OTHER + 1)}
    train_data = Passages(passages[held_out:], known)
    steps = EPOCHS * -(-len(train_data) // BATCH_SIZE)
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=256,
        num_hidden_layers=6,
        num_attention_heads=4,
        intermediate_size=1024,
        max_position_embeddings=LONGEST,
        num_labels=len(PACKAGES),
        pad_token_id=PAD,
    )
    return autoaccel.Training(
        model=BertForSequenceClassification(config),
        train_data=train_data,
        eval_data=Passages(passages[:held_out], known),
        step=loss_of,
        optimizer=lambda params: torch.optim.AdamW(params, lr=4e-4, weight_decay=0.01),
        clip=autoaccel.Clip(norm=1.0),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-4, total_steps=steps + 1),
        scheduler_interval="step",
        evaluate=accuracy,
        direction="maximize",
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        collate_fn=pad,
    )
