"""torchvision's ResNet-34 on JPEGs that are decoded, cropped and recoloured for every step.

Stands for: training a picture classifier from scratch on a few hundred photographs of one's own.
On two cores: 1.4 s a step, of which a tenth waits for data; 480 steps, 11 minutes.
A user cares about: accuracy on pictures that were held out, and being done before lunch.

The pictures are drawn: a regular polygon, a disc or a star, filled or outlined, on a cut of scikit-learn's two
photographs.
"""

import io
import math

import numpy as np
import torch
import torchvision
from PIL import Image, ImageDraw, ImageEnhance
from sklearn.datasets import load_sample_images
from torch import nn
from torch.utils.data import Dataset

import autoaccel

TRAIN_PICTURES, EVAL_PICTURES = 720, 240
SIDE = 288  # pixels of a stored picture
SIZE = 160  # pixels of what the network sees
EPOCHS = 16
BATCH_SIZE = 24
CORNERS = (3, 4, 6, 30)  # thirty corners are a disc
CLASSES = 2 * (len(CORNERS) + 1)  # and a star; each filled or outlined


def outline(kind: int, radius: float, turn: float, middle: tuple[float, float]) -> list[tuple[float, float]]:
    """Return the corners of a figure; the kind after the last polygon is a star of five points."""
    if kind < len(CORNERS):
        corners = [(radius, index / CORNERS[kind]) for index in range(CORNERS[kind])]
    else:
        corners = [(radius * (1 if index % 2 == 0 else 0.45), index / 10) for index in range(10)]
    angled = [(far, 2 * math.pi * (part + turn)) for far, part in corners]
    return [(middle[0] + far * math.cos(angle), middle[1] + far * math.sin(angle)) for far, angle in angled]


def draw(photographs: list[Image.Image], label: int, numbers: np.random.Generator) -> bytes:
    """Return a JPEG of the figure that the label says, somewhere on a photograph."""
    photograph = photographs[numbers.integers(len(photographs))]
    left, top = numbers.integers(photograph.width - SIDE), numbers.integers(photograph.height - SIDE)
    picture = photograph.crop((left, top, left + SIDE, top + SIDE))
    kind, filled = divmod(label, 2)
    radius = numbers.uniform(0.12, 0.3) * SIDE
    middle = tuple(numbers.uniform(0.35 * SIDE, 0.65 * SIDE, 2))
    corners = outline(kind, radius, numbers.random(), middle)
    colour = tuple(int(part) for part in numbers.integers(0, 256, 3))
    pen = ImageDraw.Draw(picture)
    if filled:
        pen.polygon(corners, fill=colour)
    else:
        pen.line([*corners, *corners[:2]], fill=colour, width=6, joint="curve")
    stored = io.BytesIO()
    picture.save(stored, "JPEG", quality=85)
    return stored.getvalue()


class Jpegs(Dataset):
    """Stored pictures with their labels; those to train on are cropped, mirrored and recoloured anew each time."""

    def __init__(self, count: int, seed: int, augment: bool) -> None:
        photographs = [Image.fromarray(array) for array in load_sample_images().images]
        numbers = np.random.default_rng(seed)  # the same pictures whatever the training's seed
        self.labels = [index % CLASSES for index in range(count)]
        self.stored = [draw(photographs, label, numbers) for label in self.labels]
        self.augment = augment

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        picture = Image.open(io.BytesIO(self.stored[index])).convert("RGB")
        side = 7 * SIDE // 8
        left = top = (SIDE - side) // 2
        if self.augment:
            share, across, down, mirror, light, colour = torch.rand(6).tolist()
            side = int(SIDE * (0.75 + 0.25 * share))
            left, top = int(across * (SIDE - side + 1)), int(down * (SIDE - side + 1))
            if mirror < 0.5:
                picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            picture = ImageEnhance.Brightness(picture).enhance(0.6 + 0.8 * light)
            picture = ImageEnhance.Color(picture).enhance(0.6 + 0.8 * colour)
        box = (left, top, left + side, top + side)
        pixels = torch.from_numpy(np.array(picture.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=box)))
        return pixels.permute(2, 0, 1).float() / 64 - 2, self.labels[index]  # (3, SIZE, SIZE)


def build() -> autoaccel.Training:
    """Return the training."""
    steps = EPOCHS * (TRAIN_PICTURES // BATCH_SIZE)
    return autoaccel.Training(
        model=torchvision.models.resnet34(weights=None, num_classes=CLASSES),
        train_data=Jpegs(TRAIN_PICTURES, seed=1, augment=True),
        eval_data=Jpegs(EVAL_PICTURES, seed=2, augment=False),
        loss=nn.CrossEntropyLoss(label_smoothing=0.1),
        optimizer=lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=steps + 1),
        scheduler_interval="step",
        evaluate="accuracy",
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
    )
