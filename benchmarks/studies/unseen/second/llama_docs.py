"""A Llama-like decoder of 8 layers of 768 on Python's documentation, byte by byte.

Stands for: the largest training that still makes sense on two cores: gated layers, grouped queries, 50 million weights.
On two cores: 5 s a step, about 2,200 steps, 3 hours.
A user cares about: bits per byte on text that was held out, and a run that ends today.
"""

import math
from pydoc_data.topics import topics

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM

import autoaccel

CONTEXT = 512  # bytes, T
EVAL_WINDOWS = 32
EPOCHS = 10
BATCH_SIZE = 4


def load_bytes() -> torch.Tensor:
    """Return the topics of Python's help one after the other; they differ from Python to Python."""
    text = "\n\n".join(topics[name] for name in sorted(topics)).encode()
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


class Windows(Dataset):
    """Every stretch of CONTEXT bytes, one after the other."""

    def __init__(self, text: torch.Tensor) -> None:
        self.windows = text[: len(text) // CONTEXT * CONTEXT].view(-1, CONTEXT)

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.windows[index].long()


def loss_of(model: nn.Module, text: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of the next byte, in nats."""
    return model(input_ids=text, labels=text).loss  # the model shifts the labels itself


def bits_per_byte(model: nn.Module, loader) -> float:
    """Return the loss on the held-out text, in bits."""
    losses = [(loss_of(model, text).item(), len(text)) for text in loader]
    return sum(loss * count for loss, count in losses) / sum(count for _, count in losses) / math.log(2)


def build() -> autoaccel.Training:
    """Return the training."""
    text = load_bytes()
    held_out = EVAL_WINDOWS * CONTEXT
    train_data = Windows(text[:-held_out])
    steps = EPOCHS * (len(train_data) // BATCH_SIZE)
    warmup = max(1, steps // 20)

    def rate(step: int) -> float:
        """Return the learning rate as a fraction of the highest: linear warm-up, then a cosine to a tenth."""
        progress = min(1.0, max(0, step - warmup) / max(1, steps - warmup))
        return min(1.0, (step + 1) / warmup) * (0.55 + 0.45 * math.cos(math.pi * progress))

    config = LlamaConfig(
        vocab_size=256,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=8,
        num_attention_heads=12,
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT,
        use_cache=False,
    )
    return autoaccel.Training(
        model=LlamaForCausalLM(config),
        train_data=train_data,
        eval_data=Windows(text[-held_out:]),
        step=loss_of,
        optimizer=lambda params: torch.optim.AdamW(params, lr=4e-4, betas=(0.9, 0.95), weight_decay=0.1),
        clip=autoaccel.Clip(norm=1.0),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, rate),
        scheduler_interval="step",
        evaluate=bits_per_byte,
        direction="minimize",
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        drop_last=True,
    )
