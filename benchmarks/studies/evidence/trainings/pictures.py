"""Pictures of handwritten digits: drawn anew for every step, or so few that the accuracy scatters from seed to seed."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset, TensorDataset

import autoaccel

SIZE = 32  # pixels
CLASSES = 10


class Disturbed(Dataset):
    """Digits that are turned, moved and covered with grain whenever they are asked for."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images, labels  # (N, 1, SIZE, SIZE), (N,)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        image = self.images[index]
        angle, scale, across, down = (torch.rand(4) - 0.5).tolist()
        turned = torch.tensor([[1 + 0.4 * scale, -angle, 0.4 * across], [angle, 1 + 0.4 * scale, 0.4 * down]])
        grid = functional.affine_grid(turned.unsqueeze(0), [1, 1, SIZE, SIZE], align_corners=False)
        image = functional.grid_sample(image.unsqueeze(0), grid, align_corners=False).squeeze(0)
        return image + 0.2 * torch.randn_like(image), self.labels[index]


class Block(nn.Module):
    """Two convolutions beside a shortcut (He and others, 2016)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(inner)) + self.shortcut(x))


def residual_network(widths: tuple[int, ...]) -> nn.Module:
    """Return a network of one block for each width; each but the first halves the picture."""
    inputs = (1, *widths)
    blocks = [Block(inputs[number], width, 1 + (number > 0)) for number, width in enumerate(widths)]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], CLASSES))


class PatchNetwork(nn.Module):
    """A transformer on patches of four by four pixels (Dosovitskiy and others, 2021)."""

    def __init__(self, width: int = 128, depth: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, 4, 4)
        self.places = nn.Parameter(0.02 * torch.randn(1, (SIZE // 4) ** 2, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.places  # (B, T, C)
        return self.head(self.layers(tokens).mean(1))


def load() -> tuple[torch.Tensor, torch.Tensor]:
    """Return scikit-learn's 1,797 digits as pictures (N, 1, SIZE, SIZE), from -1 to 1, and their labels (N,)."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    images = functional.interpolate(images, size=(SIZE, SIZE), mode="bilinear", align_corners=False)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return images[order], torch.tensor(digits.target)[order]


def training(model: nn.Module, train: Dataset, held_out: Dataset, epochs: int, batch: int) -> autoaccel.Training:
    """Return the training of a model on pictures."""
    return autoaccel.Training(
        model=model,
        train_data=train,
        eval_data=held_out,
        loss=functional.cross_entropy,
        optimizer=lambda params: torch.optim.AdamW(params, lr=1e-3),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs),
        evaluate="accuracy",
        epochs=epochs,
        batch_size=batch,
        drop_last=True,
    )


def augmented_resnet() -> autoaccel.Training:
    """Return a residual network on digits that are disturbed on the fly."""
    images, labels = load()
    held_out = TensorDataset(images[:360], labels[:360])
    return training(residual_network((32, 64, 128)), Disturbed(images[360:], labels[360:]), held_out, 20, 32)


def augmented_transformer() -> autoaccel.Training:
    """Return a transformer on digits that are disturbed on the fly."""
    images, labels = load()
    held_out = TensorDataset(images[:360], labels[:360])
    return training(PatchNetwork(), Disturbed(images[360:], labels[360:]), held_out, 20, 64)


def few_digits() -> autoaccel.Training:
    """Return a residual network that learns from 160 digits and is judged by 120: its accuracy scatters."""
    images, labels = load()
    train = TensorDataset(images[120:280], labels[120:280])
    return training(residual_network((48, 96, 192)), train, TensorDataset(images[:120], labels[:120]), 60, 16)


def wrong_labels() -> autoaccel.Training:
    """Return a wide residual network, two fifths of whose labels are wrong: it ends where chance leads it."""
    images, labels = load()
    chance = torch.Generator().manual_seed(1)
    drawn = torch.randint(CLASSES, labels.shape, generator=chance)
    labels = torch.where(torch.rand(labels.shape, generator=chance) < 0.4, drawn, labels)
    train = TensorDataset(images[150:790], labels[150:790])
    right = load()[1][:150]
    return training(residual_network((64, 128)), train, TensorDataset(images[:150], right), 30, 32)
