"""A small network on spectra from an instrument that takes 0.3 s for each batch: nothing here makes it faster.

Stands for: a training that waits for something outside, behind a loader that is the user's own.
On two cores: 0.31 s a step, of which 0.01 s computes; 1,200 steps, 6 minutes.
A user cares about: being told at once that there is nothing to win.

The spectra are synthesised: a line whose place is the target, two that are not, and noise. The instrument sleeps.
"""

import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import TensorDataset

import autoaccel

CHANNELS = 1024  # of a spectrum
SPECTRA, EVAL_SPECTRA = 64, 1024  # in a batch; held out
SECONDS = 0.3  # that the instrument takes for a batch
STEPS_PER_EPOCH, EPOCHS = 120, 10


def measure(count: int, numbers: torch.Generator | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return spectra (count, CHANNELS) and the place of their brightest line, from 0 to 1 (count, 1)."""
    places = torch.rand(count, 3, 1, generator=numbers)
    heights = torch.tensor([1.0, 0.6, 0.4])[:, None]
    channels = torch.linspace(0, 1, CHANNELS)
    lines = heights * torch.exp(-(((channels - places) / 0.01) ** 2))  # (count, 3, CHANNELS)
    noise = 0.1 * torch.randn(count, CHANNELS, generator=numbers)
    return lines.sum(1) + noise, places[:, 0]


class Instrument:
    """Measures a batch whenever one is asked for."""

    def __len__(self) -> int:
        return STEPS_PER_EPOCH

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for _ in range(STEPS_PER_EPOCH):
            time.sleep(SECONDS)
            yield measure(SPECTRA)


def mean_error(model: nn.Module, loader) -> float:
    """Return by how much the place of a line is missed on average, as a share of the spectrum."""
    errors = [(model(spectra) - place).abs() for spectra, place in loader]
    return torch.cat(errors).mean().item()


def held_out() -> torch.utils.data.DataLoader:
    """Return spectra that were measured before, the same whatever the seed."""
    return torch.utils.data.DataLoader(TensorDataset(*measure(EVAL_SPECTRA, torch.Generator().manual_seed(0))), 256)


def build() -> autoaccel.Training:
    """Return the training."""
    return autoaccel.Training(
        model=nn.Sequential(
            nn.Linear(CHANNELS, 512), nn.GELU(), nn.Linear(512, 128), nn.GELU(), nn.Linear(128, 1), nn.Sigmoid()
        ),
        train_data=Instrument,
        eval_data=held_out,
        loss=nn.functional.smooth_l1_loss,
        optimizer=lambda params: torch.optim.Adam(params, lr=1e-3),
        evaluate=mean_error,
        direction="minimize",
        epochs=EPOCHS,
    )
