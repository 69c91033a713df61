"""A residual network of one-dimensional convolutions that names sounds from their waveform.

Stands for: audio without spectrograms, long thin tensors.
On two cores: 0.4 s a step, 1,128 steps, 7 minutes.
A user cares about: accuracy on sounds that were held out.

The sounds are synthesised with numpy, one second at 8 kHz each; `sound` has their formulas.
"""

import itertools

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

import autoaccel

RATE = 8000  # samples of a second
CLASSES = 10
TRAIN_SOUNDS, EVAL_SOUNDS = 3008, 500
WIDTH = 48  # channels of the first stage
EPOCHS = 12
BATCH_SIZE = 32


def sounds(count: int, numbers: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sounds (count, 1, RATE) and what each is (count,)."""
    label = np.arange(count) % CLASSES
    loud, noisy = (numbers.uniform(low, 1, (count, 1)).astype("float32") for low in (0.2, 0.1))
    waves = 0.6 * noisy * numbers.standard_normal((count, RATE), dtype="float32")
    for kind in range(CLASSES):
        waves[label == kind] += loud[label == kind] * sound(kind, int((label == kind).sum()), numbers)
    return torch.from_numpy(waves)[:, None], torch.from_numpy(label)


def sound(kind: int, count: int, numbers: np.random.Generator) -> np.ndarray:
    """Return sounds of one kind (count, RATE), without noise unless they are noise."""
    t = np.arange(RATE, dtype="float32") / RATE
    pitch, slow, start = (
        numbers.uniform(low, high, (count, 1)).astype("float32") for low, high in ((150, 600), (3, 9), (0, 0.4))
    )
    phase = 2 * np.float32(np.pi) * pitch * t
    swell = np.sin(2 * np.float32(np.pi) * slow * t)
    fading = np.exp(-6 * np.maximum(0, t - start)) * (t >= start)
    formulas = (
        lambda: np.sin(phase),  # a pure tone
        lambda: np.sign(np.sin(phase)),  # a square wave
        lambda: 2 * (pitch * t % 1) - 1,  # a sawtooth
        lambda: np.sin(phase) * (1 + swell) / 2,  # a tone that swells
        lambda: np.sin(phase + 5 * swell),  # vibrato
        lambda: np.sin(phase * (1 + t)),  # a rising glide
        lambda: np.sin(phase * (2 - t)),  # a falling glide
        lambda: sum(np.sin(part * phase) / part for part in (1, 2, 3, 4)) * fading,  # plucked
        lambda: np.sin(phase) * np.sin(1.4142 * phase) * fading,  # a bell: partials that do not fit
        lambda: numbers.standard_normal((count, RATE), dtype="float32") * fading,  # a stroke
    )
    return formulas[kind]()


class Sounds(Dataset):
    """Sounds in memory; those to train on begin elsewhere each time, and some are turned over."""

    def __init__(self, count: int, seed: int, augment: bool) -> None:
        numbers = np.random.default_rng(seed)  # the same sounds whatever the training's seed
        parts = [sounds(min(250, count - start), numbers) for start in range(0, count, 250)]
        self.waves, self.labels = (torch.cat(part) for part in zip(*parts, strict=True))
        self.augment = augment

    def __len__(self) -> int:
        return len(self.waves)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        wave = self.waves[index]
        if self.augment:
            shift = torch.randint(RATE, ()).item()
            wave = wave.roll(shift, 1) * (-1 if torch.rand(()).item() < 0.5 else 1)
        return wave, self.labels[index]


class Residual(nn.Module):
    """Two convolutions beside a shortcut; the length is halved."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(inputs, outputs, 9, stride=2, padding=4, bias=False)
        self.norm1 = nn.BatchNorm1d(outputs)
        self.conv2 = nn.Conv1d(outputs, outputs, 9, padding=4, bias=False)
        self.norm2 = nn.BatchNorm1d(outputs)
        self.shortcut = nn.Conv1d(inputs, outputs, 1, stride=2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm2(self.conv2(functional.relu(self.norm1(self.conv1(x)))))
        return functional.relu(y + self.shortcut(x))  # (B, inputs, T) -> (B, outputs, T / 2)


class SoundNet(nn.Module):
    """A wide first convolution, five residual blocks, the average over time."""

    def __init__(self) -> None:
        super().__init__()
        widths = [WIDTH, WIDTH, WIDTH, 2 * WIDTH, 2 * WIDTH, 4 * WIDTH]
        self.stem = nn.Conv1d(1, WIDTH, 80, stride=4, padding=38)
        self.blocks = nn.Sequential(*(Residual(a, b) for a, b in itertools.pairwise(widths)))
        self.head = nn.Linear(widths[-1], CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(functional.relu(self.stem(x)))  # (B, 1, RATE) -> (B, 4 * WIDTH, RATE / 128)
        return self.head(x.mean(2))


def build() -> autoaccel.Training:
    """Return the training."""
    return autoaccel.Training(
        model=SoundNet(),
        train_data=Sounds(TRAIN_SOUNDS, seed=1, augment=True),
        eval_data=Sounds(EVAL_SOUNDS, seed=2, augment=False),
        loss=functional.cross_entropy,
        optimizer=lambda params: torch.optim.AdamW(params, lr=1e-3, weight_decay=0.01),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS),
        evaluate="accuracy",
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
    )
