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
MAX_DISCS = 8
TRAIN_PICTURES, EVAL_PICTURES = 3072, 512
EPOCHS = 20
BATCH_SIZE = 64


def draw(count: int, numbers: torch.Generator) -> torch.Tensor:
    """Return a picture with so many discs (3, SIZE, SIZE), as bytes."""
    line = torch.arange(SIZE)
    down, across = 80 * torch.rand(2, 3, 1, 1, generator=numbers)
    picture = ((down * line[:, None] + across * line) / SIZE).byte()
    for x, y, size, *colour in torch.rand(count, 6, generator=numbers).tolist():
        radius = (0.04 + 0.06 * size) * SIZE
        middle_x, middle_y = (0.1 + 0.8 * x) * SIZE, (0.1 + 0.8 * y) * SIZE
        inside = (line - middle_x) ** 2 + (line[:, None] - middle_y) ** 2 < radius**2  # (SIZE, SIZE)
        picture[:, inside] = torch.tensor([[100 + 155 * part] for part in colour]).byte()
    return picture


class Discs(Dataset):
    """Drawn pictures with their counts; those to train on are mirrored."""

    def __init__(self, count: int, seed: int, augment: bool) -> None:
        numbers = torch.Generator().manual_seed(seed)  # the same pictures whatever the training's seed
        self.counts = torch.randint(1, MAX_DISCS + 1, (count,), generator=numbers)
        self.pictures = torch.stack([draw(discs, numbers) for discs in self.counts.tolist()])
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
        model=timm.create_model("vit_tiny_patch16_224", pretrained=False, img_size=SIZE, num_classes=MAX_DISCS),
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
