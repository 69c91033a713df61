"""Two convolutions on made-up images: a process is ready at once, and what pays is what pays on real ones."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import autoaccel

CLASSES, BATCH_SIZE, STEPS_PER_EPOCH = 10, 64, 20


def made_up(samples: int, seed: int) -> TensorDataset:
    """Return noisy copies of ten fixed patterns."""
    patterns = torch.randn(CLASSES, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (samples,), generator=generator)
    return TensorDataset(patterns[labels] + torch.randn(samples, 1, 28, 28, generator=generator), labels)


def build() -> autoaccel.Training:
    """Return the training: 10,000 steps."""
    return autoaccel.Training(
        model=nn.Sequential(
            nn.Conv2d(1, 32, 3),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * 12 * 12, CLASSES),
        ),
        train_data=made_up(BATCH_SIZE * STEPS_PER_EPOCH, seed=1),
        eval_data=made_up(500, seed=2),
        loss=functional.cross_entropy,
        optimizer=lambda params: torch.optim.Adam(params, lr=1e-3),
        evaluate="accuracy",
        epochs=500,
        batch_size=BATCH_SIZE,
    )
