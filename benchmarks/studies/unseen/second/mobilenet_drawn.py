"""timm's MobileNetV4 (small) on road signs that are drawn and disturbed for every step.

Stands for: a network for telephones on pictures that a program makes, so that the step waits for its data.
On two cores: 0.5 s a step, of which a third waits for data; 1,000 steps, 8 minutes.
A user cares about: accuracy on signs that were drawn before.
"""

import math

import numpy as np
import timm
import torch
from PIL import Image, ImageDraw, ImageFilter
from torch.nn import functional
from torch.utils.data import Dataset, TensorDataset

import autoaccel

SIZE = 112  # pixels of what the network sees
CORNERS = (3, 4, 8, 40)  # forty corners are a disc
BARS = 4  # white bars on a sign: 0 to 3
CLASSES = len(CORNERS) * BARS
STEPS_PER_EPOCH, EPOCHS = 100, 10
BATCH_SIZE = 48
EVAL_SIGNS = 256


def draw(label: int, chances: list[float]) -> torch.Tensor:
    """Return a sign before a sky and a road (3, SIZE, SIZE), from -2 to 2. Fourteen chances in [0, 1) say how."""
    kind, bars = divmod(label, BARS)
    large, across, down, turn, red, green, blue, sky, road, horizon, tilt, light, blur, grain = chances
    side = 2 * SIZE  # drawn twice as large: smooth edges
    picture = Image.new("RGB", (side, side), (int(90 + 90 * sky), int(120 + 90 * sky), int(160 + 90 * sky)))
    pen = ImageDraw.Draw(picture)
    pen.rectangle((0, int((0.4 + 0.4 * horizon) * side), side, side), fill=(int(50 + 60 * road),) * 3)
    radius = (0.15 + 0.2 * large) * side
    x, y = (0.35 + 0.3 * across) * side, (0.35 + 0.3 * down) * side
    angles = [2 * math.pi * (corner + 0.3 * turn) / CORNERS[kind] for corner in range(CORNERS[kind])]
    corners = [(x + radius * math.sin(angle), y - radius * math.cos(angle)) for angle in angles]
    pen.polygon(corners, fill=(int(100 + 155 * red), int(160 * green), int(160 * blue)))
    for bar in range(bars):
        top = y + (bar - bars / 2 + 0.25) * 0.22 * radius
        pen.rectangle((x - 0.4 * radius, top, x + 0.4 * radius, top + 0.11 * radius), fill=(240, 240, 240))
    picture = picture.rotate(30 * tilt - 15, Image.Resampling.BILINEAR).filter(ImageFilter.GaussianBlur(2 * blur))
    small = picture.resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    pixels = torch.from_numpy(np.array(small)).permute(2, 0, 1).float() / 64 - 2
    return (0.5 + light) * pixels + 0.3 * grain * torch.randn(pixels.shape)


class DrawnSigns(Dataset):
    """Signs that are drawn when they are asked for."""

    def __len__(self) -> int:
        return STEPS_PER_EPOCH * BATCH_SIZE

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        label = index % CLASSES
        # From torch: each loader worker gets a torch seed of its own, derived from the run's.
        return draw(label, torch.rand(14).tolist()), label


def held_out_signs() -> TensorDataset:
    """Return signs without grain, the same whatever the seed."""
    chances = torch.rand(EVAL_SIGNS, 14, generator=torch.Generator().manual_seed(0))
    chances[:, -1] = 0
    labels = torch.arange(EVAL_SIGNS) % CLASSES
    return TensorDataset(torch.stack([draw(int(a), b.tolist()) for a, b in zip(labels, chances, strict=True)]), labels)


def build() -> autoaccel.Training:
    """Return the training."""
    return autoaccel.Training(
        model=timm.create_model("mobilenetv4_conv_small", pretrained=False, num_classes=CLASSES),
        train_data=DrawnSigns(),
        eval_data=held_out_signs(),
        loss=functional.cross_entropy,
        optimizer=lambda params: torch.optim.AdamW(params, lr=2e-3, weight_decay=0.02),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS),
        evaluate="accuracy",
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
    )
