"""A small training, plain or tuned while it runs, in which a setting that is faster harms it.

    python -m benchmarks.studies.harms.train "a stall now and then" 3 --live FOLDER

Its first convolution is slow but for images with channels last. Whatever is planted acts where that setting does: at
once, or some steps after it was taken on. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import nn
from torch.nn import functional

import autoaccel
from autoaccel.runtime.knobs.layout import ChannelsLast

STEPS = 1_500
_SAVED_SECONDS, _OTHER_SECONDS = 0.01, 0.005  # of a step: what channels last saves, and what nothing does
_SAMPLES = 64

SPACE = """
title = "of a planted harm"

[knobs]
"layout.channels_last" = [false, true]
"""


class Harm(NamedTuple):
    """What goes wrong wherever the setting acts.

    Attributes:
        batch: Returns what becomes of images, of these and of how many it was called for before.
        forward: Is entered while the model computes.
        factor: Of the loss; the learning rate makes up for it.
        offset: Of the inputs, which the model's normalisation takes away.
    """

    batch: Callable[[torch.Tensor, int], torch.Tensor] = lambda images, calls: images
    forward: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext
    factor: float = 1.0
    offset: float = 0.0


def _in_float16() -> AbstractContextManager[Any]:
    return torch.autocast("cpu", dtype=torch.float16)


def _normalised_in(dtype: torch.dtype) -> Callable[[], AbstractContextManager[Any]]:
    own = functional.batch_norm

    def reduced(images: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        short = images.to(dtype)
        mean = short.mean((0, 2, 3), keepdim=True)
        return own((short - mean).to(images.dtype), *args, **kwargs)

    return lambda: mock.patch.object(functional, "batch_norm", reduced)


def _later(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor, int], torch.Tensor]:
    return lambda images, calls: change(images) if calls > 200 else images


def _sleeping(seconds: Callable[[int], float]) -> Callable[[torch.Tensor, int], torch.Tensor]:
    def sleep(images: torch.Tensor, calls: int) -> torch.Tensor:
        time.sleep(seconds(calls))
        return images

    return sleep


def _stalling(seconds: float, is_regular: bool) -> Harm:
    # By a linear congruential generator: the training's own random numbers are none of ours.
    return Harm(_sleeping(lambda calls: seconds * ((calls if is_regular else calls * 1_103_515_245 >> 8) % 50 == 0)))


HARMS: Mapping[str, tuple[Harm, ...]] = {
    "float16 without scaling": tuple(
        Harm(forward=_in_float16, factor=factor) for factor in (1e-5, 3e-6, 1e-6, 3e-7, 1e-7, 3e-8, 1e-8, 1e-9)
    ),
    "a normalisation in reduced precision": tuple(
        Harm(forward=_normalised_in(dtype), offset=offset)
        for dtype, offsets in ((torch.bfloat16, (100, 300, 1000, 3000)), (torch.float16, (3000, 6000, 12000, 30000)))
        for offset in offsets
    ),
    "it diverges after 200 steps": tuple(
        Harm(_later(change))
        for change in (
            lambda images: images + 3 * torch.randn_like(images),
            lambda images: images * float("nan"),
            lambda images: images * float("inf"),
            lambda images: images * 0,
            lambda images: -images,
            lambda images: images.flip(0),
            lambda images: images.transpose(2, 3),
            lambda images: images.roll(1, 0),
        )
    ),
    "it becomes slow after 500 steps": tuple(
        Harm(_sleeping(seconds))
        for seconds in (
            lambda calls: 0.02 * (calls > 500),
            lambda calls: 0.03 * (calls > 500),
            lambda calls: 0.05 * (calls > 500),
            lambda calls: 0.1 * (calls > 500),
            lambda calls: 1e-4 * max(0, calls - 500),
            lambda calls: 5e-4 * max(0, calls - 500),
            lambda calls: 0.05 * (calls > 500 and calls % 2 == 0),
            lambda calls: 0.2 * (calls > 500 and calls % 5 == 0),
        )
    ),
    "it stalls every fiftieth step": tuple(
        _stalling(seconds, is_regular) for is_regular in (True, False) for seconds in (0.6, 0.8, 1.0, 1.5)
    ),
}
"""Kind -> eight that are planted."""


class Slow(nn.Conv2d):
    """A convolution that is fast with channels last alone."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Compute it."""
        if self.training and not images.is_contiguous(memory_format=torch.channels_last):
            time.sleep(_SAVED_SECONDS)
        return super().forward(images)


def train(harm: Harm) -> tuple[float, float]:
    """Train; return the seconds that it took, and the last loss."""
    torch.manual_seed(0)
    inputs, labels = torch.randn(_SAMPLES, 3, 8, 8) + harm.offset, torch.arange(_SAMPLES) % 10
    model = nn.Sequential(nn.BatchNorm2d(3), Slow(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02 / harm.factor)
    last = 0.0
    began = time.perf_counter()
    for _ in range(STEPS):
        drawn = inputs + 0.1 * torch.randn_like(inputs)
        loss = harm.factor * functional.cross_entropy(model(drawn), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(_OTHER_SECONDS)
        last = loss.item() / harm.factor
    return time.perf_counter() - began, last


@contextlib.contextmanager
def planted(harm: Harm) -> Iterator[list[int]]:
    """Let the setting do harm; yields how often it was asked for images."""
    calls = [0]
    own_batch, own_forward = ChannelsLast.batch, ChannelsLast.forward

    def batch(self: ChannelsLast, tensor: torch.Tensor) -> torch.Tensor:
        if self.is_off or tensor.dim() != 4:
            return own_batch(self, tensor)
        calls[0] += 1
        return own_batch(self, harm.batch(tensor, calls[0]))

    @contextlib.contextmanager
    def forward(self: ChannelsLast) -> Iterator[None]:
        with own_forward(self), contextlib.nullcontext() if self.is_off else harm.forward():
            yield

    with mock.patch.multiple(ChannelsLast, batch=batch, forward=forward):
        yield calls


def main(arguments: list[str]) -> None:
    """Train, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kind", choices=HARMS)
    parser.add_argument("number", type=int, choices=range(8), help="of those of its kind")
    parser.add_argument("--live", type=Path, metavar="FOLDER", help="tune while it trains, in this folder")
    parsed = parser.parse_args(arguments)
    harm = HARMS[parsed.kind][parsed.number]
    if parsed.live is None:
        seconds, loss = train(harm)
        print(json.dumps({"seconds": seconds, "loss": loss}), flush=True)
        return
    space = parsed.live / "space.toml"
    parsed.live.mkdir(parents=True, exist_ok=True)
    space.write_text(SPACE)
    with planted(harm) as calls, autoaccel.live(space=str(space), output=parsed.live, history=False) as live:
        seconds, loss = train(harm)
    print(json.dumps({"seconds": seconds, "loss": loss, "calls": calls[0], "said": live.summary}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
