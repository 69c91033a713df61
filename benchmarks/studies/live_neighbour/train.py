"""A small training, plain or tuned while it runs; timed from its first step to its last.

    python -m benchmarks.studies.live_neighbour.train "kept memory helps" --live FOLDER

Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import autoaccel

STEPS = 800
_PIXELS, _SAMPLES = 16, 64


def _as_they_are(images: torch.Tensor) -> torch.Tensor:
    return images


def _through_large_memory(images: torch.Tensor) -> torch.Tensor:
    # 48 MiB, more than the largest block that the C library ever keeps by itself: the system hands it out each time.
    return images * torch.ones(12 << 20)[0]


TRAININGS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "hardly anything helps": _as_they_are,
    "kept memory helps": _through_large_memory,
}
"""Name -> what becomes of a batch on its way to the model."""


def train(prepare: Callable[[torch.Tensor], torch.Tensor]) -> float:
    """Train; return the seconds that it took."""
    torch.manual_seed(0)
    images, labels = torch.randn(_SAMPLES, 3, _PIXELS, _PIXELS), torch.arange(_SAMPLES) % 10
    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    began = time.perf_counter()
    for _ in range(STEPS):
        loss = functional.cross_entropy(model(prepare(images + 0.1 * torch.randn_like(images))), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return time.perf_counter() - began


def main(arguments: list[str]) -> None:
    """Train, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("training", choices=TRAININGS)
    parser.add_argument("--live", type=Path, metavar="FOLDER", help="tune while it trains, in this folder")
    parsed = parser.parse_args(arguments)
    prepare = TRAININGS[parsed.training]
    if parsed.live is None:
        found = {"seconds": train(prepare)}
    else:
        with autoaccel.live(output=parsed.live, history=False) as live:
            found = {"seconds": train(prepare)}
        found |= {"said": live.summary}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
