"""One reading as a plain script takes it: train under some settings in this process, and print how long steps took.

    python -m benchmarks.studies.unseen.plain MODEL.py '{"precision.autocast": "bfloat16"}' --seconds 2 --steps 5

A loop around `autoaccel.apply()`'s methods with a clock: none of the code that the tuner measures with. Printed is one
line of JSON: `first_seconds`, what the first steps took beyond as many later ones; `step_seconds`, the time of each
step after them, the wait for its batch included; `wait_share`, how much of that time was this wait; `made_seconds`, the
time of all steps; `in_vain`, the settings that did nothing, such as a compilation that captured no graph.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from autoaccel.records.settings import Settings
from autoaccel.runs.workloads import find_workload
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.loading import build_training, load_build
from autoaccel.runtime.training import Training, is_dataset

_FIRST_STEPS = 2  # before the clock counts: kernels are chosen, what compiles is compiled


def batches(training: Training, applied: Applied) -> Iterator[Any]:
    """Yield batches, epoch after epoch."""
    data = training.train_data
    if is_dataset(data):
        assert training.batch_size is not None  # Training refuses it otherwise
        loader: Any = DataLoader(
            applied.dataset(data),
            applied.batch_size(training.batch_size),
            shuffle=training.shuffle,
            drop_last=training.drop_last,
            collate_fn=training.collate_fn,
            **applied.loader_arguments(),
        )
    else:
        loader = data()  # type: ignore[operator]  # no dataset, so a function
    while True:
        yield from loader


def steps(training: Training, applied: Applied) -> Iterator[tuple[float, float]]:
    """Make one step after the other; yield its seconds, and how many of them it waited for its batch."""
    model = applied.model(training.model.train())
    optimizer = applied.optimizer(training.make_optimizer(training.model))
    scheduler = training.scheduler(optimizer) if training.scheduler and training.scheduler_interval == "step" else None
    drawn = applied.prefetch(batches(training, applied))
    while True:
        start = time.perf_counter()
        batch = applied.batch(next(drawn))
        waited = time.perf_counter() - start
        with applied.forward():
            if training.step is not None:
                loss = training.step(model, batch)
            else:
                assert training.loss is not None  # Training refuses it otherwise
                *inputs, target = batch
                loss = training.loss(model(*inputs), target)
        applied.backward(loss)
        if training.clip is not None and applied.unscale(optimizer):
            training.clip.apply(training.model.parameters())
        applied.step(optimizer)
        if scheduler is not None:
            scheduler.step()
        yield time.perf_counter() - start, waited


def read(training: Training, settings: Settings, seconds: float, least: int) -> dict[str, Any]:
    """Return the times of first steps and of later ones, which go on for so many seconds and at least so many steps."""
    # What workers prepared while the first step ran says nothing about how fast they are.
    first_steps = _FIRST_STEPS + 2 * int(settings.get("loader.workers", 0))
    applied = Applied(settings)
    making = steps(training, applied)
    first = [next(making)[0] for _ in range(first_steps)]
    found: list[tuple[float, float]] = []
    while len(found) < least or sum(step for step, _ in found) < seconds:
        found.append(next(making))
    times = [step for step, _ in found]
    return {
        "first_seconds": sum(max(0.0, step - statistics.median(times)) for step in first),
        "step_seconds": times,
        "wait_share": sum(waited for _, waited in found) / sum(times),
        "made_seconds": sum(first) + sum(times),
        "in_vain": sorted(applied.check()[1]),
    }


def main(arguments: list[str]) -> None:
    """Print a reading."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", metavar="MODEL.py")
    parser.add_argument("settings", type=json.loads, metavar="JSON")
    parser.add_argument("--seconds", type=float, default=2.0, help="that the counted steps take at least")
    parser.add_argument("--steps", type=int, default=5, help="that are counted at least")
    parsed = parser.parse_args(arguments)
    workload = find_workload(parsed.model)
    training = build_training(load_build(workload), workload, seed=0)
    print(json.dumps(read(training, parsed.settings, parsed.seconds, parsed.steps)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
