"""A small character-level GPT on the source text of Python's standard library.

A step is mostly matrix products; the rest is many small operators. So precision, threads and compilation can all
matter. Run `autoaccel tune examples/char_gpt.py` to tune it, or run this file to train.
"""

import math
import sysconfig
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import autoaccel

# The first characters. Modules differ between versions of Python, so compare losses only on the same version.
TEXT_CHARACTERS = 1_000_000
EVAL_WINDOWS = 256
SYMBOLS = 128  # all of ASCII, so that the model has the same size on every version of Python
CONTEXT = 128  # T
WIDTH = 128  # C
HEADS = 4
LAYERS = 2
BATCH_SIZE = 24


class Windows(Dataset):
    """Consecutive windows of CONTEXT characters, each with the same window one character later as its target."""

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


def rotate(x: torch.Tensor) -> torch.Tensor:
    """Return queries or keys rotated by angles that grow with their position (rotary embedding, arXiv 2104.09864)."""
    T, D = x.shape[-2:]  # noqa: N806  # the field's names of dimensions
    frequencies = 10_000 ** (-torch.arange(0, D, 2, device=x.device) / D)  # (D / 2,)
    angles = torch.arange(T, device=x.device)[:, None] * frequencies  # (T, D / 2)
    a, b = x.chunk(2, dim=-1)  # each (B, heads, T, D / 2)
    turned = (a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos())
    return torch.cat(turned, dim=-1).type_as(x)  # (B, heads, T, D)


class Block(nn.Module):
    """Causal self-attention, then a feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.widen = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape  # noqa: N806  # the field's names of dimensions
        heads = self.queries_keys_values(self.norm1(x)).view(B, T, 3, HEADS, C // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)  # each (B, heads, T, C / heads)
        # Rotary, because a run this short ends before attention with learned positions has found its neighbours.
        q, k = rotate(q), rotate(k)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, heads, T, C / heads)
        x = x + self.mix(y.transpose(1, 2).reshape(B, T, C))  # (B, T, C)
        return x + self.narrow(functional.gelu(self.widen(self.norm2(x))))  # (B, T, C)


class CharGPT(nn.Module):
    """A decoder-only transformer over characters."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(SYMBOLS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, SYMBOLS)
        nn.init.normal_(self.characters.weight, std=0.3)  # the default, 1, would outweigh what the blocks add at first

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.characters(text)  # (B, T) -> (B, T, C)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))  # (B, T, SYMBOLS)


def load_text() -> torch.Tensor:
    """Return the beginning of the standard library's source text, one number per character."""
    parts, length = [], 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        # Anything beyond ASCII (a few names of authors) becomes "?".
        parts.append(path.read_text("utf-8", errors="replace").encode("ascii", errors="replace"))
        length += len(parts[-1])
        if length >= TEXT_CHARACTERS:
            return torch.frombuffer(bytearray(b"".join(parts)[:TEXT_CHARACTERS]), dtype=torch.uint8)
    raise SystemExit(
        f"char_gpt.py: the .py files in {sysconfig.get_path('stdlib')} must hold {TEXT_CHARACTERS} characters, "
        f"got {length}. Use a Python whose standard library is installed as source files."
    )


def loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of the next character, in nats."""
    return functional.cross_entropy(logits.flatten(0, 1), target.flatten())  # (B * T, SYMBOLS), (B * T,)


def val_loss(model: nn.Module, loader: DataLoader) -> float:
    """Return the loss per character on the held-out text."""
    total, count = 0.0, 0
    for text, target in loader:
        total += loss(model(text), target).item() * len(text)
        count += len(text)
    return total / count


def build() -> autoaccel.Training:
    """Return the training: one pass over the text, about 300 steps."""
    text = load_text()
    # The end of the text is held out: whole modules that the model has never seen.
    held_out = EVAL_WINDOWS * CONTEXT + 1
    train_data, eval_data = Windows(text[:-held_out]), Windows(text[-held_out:])
    steps = len(train_data) // BATCH_SIZE
    warmup = steps // 10

    def rate(step: int) -> float:
        """Return the learning rate at a step, as a fraction of the highest: linear warm-up, then a cosine to 0."""
        progress = min(1.0, max(0, step - warmup) / (steps - warmup))
        return min(1.0, (step + 1) / warmup) * (1 + math.cos(math.pi * progress)) / 2

    return autoaccel.Training(
        model=CharGPT(),
        train_data=train_data,
        eval_data=eval_data,
        loss=loss,
        optimizer=lambda params: torch.optim.AdamW(params, lr=4e-3, betas=(0.9, 0.99), weight_decay=0.1),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, rate),
        scheduler_interval="step",
        evaluate=val_loss,
        direction="minimize",
        epochs=1,
        batch_size=BATCH_SIZE,
        drop_last=True,
    )


if __name__ == "__main__":
    torch.manual_seed(0)
    parts = build()
    model = parts.model
    optimizer = parts.optimizer(model.parameters())
    scheduler = parts.scheduler(optimizer)
    train_loader = DataLoader(parts.train_data, parts.batch_size, shuffle=True, drop_last=True)
    eval_loader = DataLoader(parts.eval_data, parts.batch_size)
    for epoch in range(parts.epochs):
        start = time.perf_counter()
        for step, (text, target) in enumerate(train_loader, start=1):
            step_loss = parts.loss(model(text), target)
            optimizer.zero_grad()
            step_loss.backward()
            optimizer.step()
            scheduler.step()
            if step % 50 == 0:
                print(f"step {step}: training loss {step_loss.item():.3f}")
        seconds = time.perf_counter() - start
        model.eval()
        with torch.no_grad():
            print(f"epoch {epoch + 1}: val_loss {val_loss(model, eval_loader):.4f}, {seconds:.1f} s")
        model.train()
