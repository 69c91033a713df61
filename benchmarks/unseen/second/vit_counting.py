"""timm's ViT (tiny) that counts the discs in a picture.

Stands for: a vision transformer from scratch, nearly all of it matrix products.
On two cores: 1.2 s a step, 960 steps, 19 minutes.
A user cares about: by how many discs the count is wrong on held-out pictures.

The pictures are drawn by torch: one to eight discs of any colour, which may touch, over a gradient.
"""

import timm
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

import autoaccel

SIZE = 128  # pixels
MOST_DISCS = 8
TRAIN_PICTURES, EVAL_PICTURES = 3072, 512
EPOCHS = 20
BATCH_SIZE = 64


def draw(count: int, numbers: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return pictures (count, 3, SIZE, SIZE) as bytes and how many discs each has (count,)."""
    discs = torch.randint(1, MOST_DISCS + 1, (count,), generator=numbers)
    line = torch.linspace(0, 1, SIZE)
    slope = torch.rand(count, 3, 2, 1, 1, generator=numbers)
    pictures = 0.3 * slope[:, :, 0] * line[:, None] + 0.3 * slope[:, :, 1] * line  # (count, 3, SIZE, SIZE)
    for number in range(MOST_DISCS):
        x, y = 0.1 + 0.8 * torch.rand(2, count, 1, 1, generator=numbers)
        radius = 0.04 + 0.06 * torch.rand(count, 1, 1, generator=numbers)
        colour = 0.4 + 0.6 * torch.rand(count, 3, 1, 1, generator=numbers)
        inside = (line - x) ** 2 + (line[:, None] - y) ** 2 < radius**2  # (count, SIZE, SIZE)
        shown = inside & (number < discs)[:, None, None]
        pictures = torch.where(shown[:, None], colour, pictures)
    return (255 * pictures).byte(), discs


class Discs(Dataset):
    """Drawn pictures with their counts; those to train on are mirrored."""

    def __init__(self, count: int, seed: int, augment: bool) -> None:
        numbers = torch.Generator().manual_seed(seed)  # the same pictures whatever the training's seed
        parts = [draw(min(256, count - start), numbers) for start in range(0, count, 256)]
        self.pictures, self.counts = (torch.cat(part) for part in zip(*parts, strict=True))
        self.augment = augment

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        picture = self.pictures[index]
        if self.augment and torch.rand(()).item() < 0.5:
            picture = picture.flip(2)
        return picture.float() / 64 - 2, self.counts[index]


def loss(logits: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of the count."""
    return functional.cross_entropy(logits, count - 1, label_smoothing=0.05)


def mean_miss(model: nn.Module, loader) -> float:
    """Return by how many discs the likeliest count is wrong on average."""
    misses = [(model(pictures).argmax(1) + 1 - count).abs() for pictures, count in loader]
    return torch.cat(misses).float().mean().item()


def build() -> autoaccel.Training:
    """Return the training."""
    steps = EPOCHS * (TRAIN_PICTURES // BATCH_SIZE)
    return autoaccel.Training(
        model=timm.create_model("vit_tiny_patch16_224", pretrained=False, img_size=SIZE, num_classes=MOST_DISCS),
        train_data=Discs(TRAIN_PICTURES, seed=1, augment=True),
        eval_data=Discs(EVAL_PICTURES, seed=2, augment=False),
        loss=loss,
        optimizer=lambda params: torch.optim.AdamW(params, lr=5e-4, weight_decay=0.05),
        clip=autoaccel.Clip(norm=1.0),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-4, total_steps=steps + 1),
        scheduler_interval="step",
        evaluate=mean_miss,
        direction="minimize",
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
    )
