"""Kinds of convolutional networks that other workloads lack: inverted residuals, large kernels, attention.

Each is trained on noise; only its time counts.
"""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import autoaccel

SAMPLES, SIZE, CLASSES = 256, 32, 10


class InvertedResidual(nn.Module):
    """Widen, convolve each channel alone, and narrow again, as MobileNetV2 does."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        wide = 4 * channels
        self.inner = nn.Sequential(
            nn.Conv2d(channels, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x)


class LargeKernel(nn.Module):
    """A depthwise convolution of 7 x 7, then layers over the channels, as ConvNeXt has them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.widen, self.narrow = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.depthwise(x).permute(0, 2, 3, 1)  # (B, H, W, channels)
        inner = self.narrow(functional.gelu(self.widen(self.norm(inner))))
        return x + inner.permute(0, 3, 1, 2)


class Attentive(nn.Module):
    """A convolution, then attention over all places of the image."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.LayerNorm(channels)
        self.attention = nn.MultiheadAttention(channels, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.gelu(self.convolution(x))
        places = self.norm(x.flatten(2).transpose(1, 2))  # (B, H * W, channels)
        attended = self.attention(places, places, places, need_weights=False)[0]
        return x + attended.transpose(1, 2).reshape(x.shape)


def _training(block: Callable[[int], nn.Module], channels: int, depth: int, patch: int, batch_size: int):
    torch.manual_seed(0)
    inputs, targets = torch.randn(SAMPLES, 3, SIZE, SIZE), torch.randint(0, CLASSES, (SAMPLES,))
    data = TensorDataset(inputs, targets)
    return autoaccel.Training(
        model=nn.Sequential(
            nn.Conv2d(3, channels, patch, stride=patch),
            *(block(channels) for _ in range(depth)),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(channels, CLASSES),
        ),
        train_data=data,
        eval_data=data,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        evaluate="accuracy",
        epochs=1,
        batch_size=batch_size,
        loss=nn.CrossEntropyLoss(),
    )


def inverted_residuals():
    return _training(InvertedResidual, 32, 4, 2, 32)


def large_kernels():
    return _training(LargeKernel, 64, 4, 2, 32)


def with_attention():
    return _training(Attentive, 64, 3, 4, 64)
