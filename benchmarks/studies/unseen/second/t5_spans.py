"""A T5 of 4 and 4 layers of 320 that fills in spans left out of Python's documentation; padded on both sides.

Stands for: an encoder with a decoder on texts of many lengths, whose samples are made anew each time.
On two cores: 1.3 s a step, with the length of the batch; about 900 steps, 19 minutes.
A user cares about: the loss on the spans of paragraphs that were held out.
"""

import collections
import re
from pydoc_data.topics import topics

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import T5Config, T5ForConditionalGeneration

import autoaccel

WORDS = 8192  # in the vocabulary
SPANS = 16  # the most that are left out of a text; each has a sign of its own
PAD, END, OTHER = 0, 1, 2
FIRST_SPAN = 3
FIRST_WORD = FIRST_SPAN + SPANS
SHORTEST, LONGEST = 24, 192  # words of a text
SPAN_WORDS = 3  # left out together
LEFT_OUT = 0.15  # of the words
EVAL_EVERY = 12  # one text in so many is held out
EPOCHS = 24
BATCH_SIZE = 16


def load_texts() -> list[list[str]]:
    """Return the words of texts of one or more paragraphs; they differ from Python to Python."""
    texts: list[list[str]] = []
    for name in sorted(topics):
        text: list[str] = []
        for paragraph in topics[name].split("\n\n"):
            text += re.findall(r"\w+|[^\w\s]", paragraph)
            # As long as its number says, so that lengths differ as those of documents do.
            if len(text) >= SHORTEST + 37 * len(texts) % (LONGEST - SHORTEST):
                texts.append(text[:LONGEST])
                text = []
    return texts


class Spans(Dataset):
    """Texts with spans left out, and these spans; others each time, unless held out."""

    def __init__(self, texts: list[list[str]], known: dict[str, int], held_out: bool) -> None:
        self.texts = [torch.tensor([known.get(word, OTHER) for word in text]) for text in texts]
        self.held_out = held_out

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        text = self.texts[index]
        numbers = torch.Generator().manual_seed(index) if self.held_out else None
        count = min(SPANS, max(1, round(LEFT_OUT * len(text) / SPAN_WORDS)))
        starts = torch.randperm(len(text) // SPAN_WORDS, generator=numbers)[:count].sort().values * SPAN_WORDS
        given, wanted, end = [], [], 0
        for number, start in enumerate(starts.tolist()):
            sign = torch.tensor([FIRST_SPAN + number])
            given += [text[end:start], sign]
            end = start + SPAN_WORDS
            wanted += [sign, text[start:end]]
        last = torch.tensor([END])
        return torch.cat([*given, text[end:], last]), torch.cat([*wanted, last])


def pad(samples: list[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Return a batch as long as its longest text, and its longest spans."""
    given, wanted = zip(*samples, strict=True)
    texts = nn.utils.rnn.pad_sequence(given, batch_first=True, padding_value=PAD)  # (B, T)
    labels = nn.utils.rnn.pad_sequence(wanted, batch_first=True, padding_value=-100)  # (B, S); -100 does not count
    return {"input_ids": texts, "attention_mask": (texts != PAD).long(), "labels": labels}


def loss_of(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the mean cross-entropy of what was left out, in nats."""
    return model(**batch).loss


def val_loss(model: nn.Module, loader) -> float:
    """Return the loss per word that was left out of the held-out texts."""
    losses = [(loss_of(model, batch).item(), (batch["labels"] != -100).sum().item()) for batch in loader]
    return sum(loss * count for loss, count in losses) / sum(count for _, count in losses)


def build() -> autoaccel.Training:
    """Return the training."""
    texts = load_texts()
    train = [text for index, text in enumerate(texts) if index % EVAL_EVERY]
    counts = collections.Counter(word for text in train for word in text)
    known = {word: number for number, (word, _) in enumerate(counts.most_common(WORDS - FIRST_WORD), start=FIRST_WORD)}
    config = T5Config(
        vocab_size=WORDS,
        d_model=320,
        d_kv=64,
        d_ff=1280,
        num_layers=4,
        num_heads=5,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=PAD,
        use_cache=False,
    )
    return autoaccel.Training(
        model=T5ForConditionalGeneration(config),
        train_data=Spans(train, known, held_out=False),
        eval_data=Spans(texts[::EVAL_EVERY], known, held_out=True),
        step=loss_of,
        optimizer=lambda params: torch.optim.AdamW(params, lr=1e-3, weight_decay=0.01),
        clip=autoaccel.Clip(norm=1.0),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS),
        evaluate=val_loss,
        direction="minimize",
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        collate_fn=pad,
    )
