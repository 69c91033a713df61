"""What it costs to load one sample: time, waiting, bytes, and what of it is slow."""

from __future__ import annotations

import cProfile
import itertools
import pickle
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from autoaccel.records.conditions import Part, Samples
from autoaccel.runtime.calls import parts_of, record_calls
from autoaccel.runtime.datasets import bytes_of

_MAX_SAMPLES = 64
_MIN_SAMPLES = 3


def measure_samples(loader: Any, seconds: float) -> Samples | None:
    """Return what loading samples costs in this process, in about this time; None unless it is a DataLoader's data."""
    if not isinstance(loader, DataLoader):
        return None
    drawn = list(_timed(_samples_of(loader.dataset), seconds / 2))
    if not drawn:
        return None
    samples = [sample for sample, _, _ in drawn]
    collate_seconds, handover_seconds = _batch_seconds(loader, samples)
    return Samples(
        seconds=sum(wall for _, wall, _ in drawn) / len(drawn),
        busy_seconds=sum(busy for _, _, busy in drawn) / len(drawn),
        bytes=round(sum(map(bytes_of, samples)) / len(samples)),
        collate_seconds=collate_seconds,
        handover_seconds=handover_seconds,
        parts=_parts(loader.dataset, seconds / 2),
    )


def _samples_of(dataset: Any) -> Iterator[Callable[[], Any]]:
    """Yield functions that load one sample each, of a map-style dataset spread over it."""
    if isinstance(dataset, IterableDataset):
        stream = iter(dataset)
        yield from itertools.repeat(lambda: next(stream), _MAX_SAMPLES)
        return
    # Not every so many: what is slow may recur as regularly.
    for index in random.Random(0).sample(range(len(dataset)), min(_MAX_SAMPLES, len(dataset))):
        yield partial(dataset.__getitem__, index)


def _timed(loads: Iterator[Callable[[], Any]], seconds: float) -> Iterator[tuple[Any, float, float]]:
    """Yield samples, each with the seconds that it took and how many of them this thread was not asleep."""
    until = time.perf_counter() + seconds
    for number, load in enumerate(loads):
        if time.perf_counter() > until and number >= _MIN_SAMPLES:
            return
        start, busy_start = time.perf_counter(), _busy_seconds()
        try:
            sample = load()
        except StopIteration:
            return
        yield sample, time.perf_counter() - start, _busy_seconds() - busy_start


def _busy_seconds() -> float:
    """Return how long this thread has computed, or waited for a core that others kept busy, so far."""
    try:
        on_core, for_core, _ = Path("/proc/thread-self/schedstat").read_text().split()
    except (OSError, ValueError):
        return time.thread_time()
    return (int(on_core) + int(for_core)) / 1e9


def _batch_seconds(loader: DataLoader[Any], samples: list[Any]) -> tuple[float | None, float | None]:
    """Return the seconds to make a batch of loaded samples and to hand it over to another process; None if unknown."""
    if loader.batch_size is None:
        return None, None
    loaded = [samples[index % len(samples)] for index in range(loader.batch_size)]
    start = time.perf_counter()
    batch = loader.collate_fn(loaded)
    collated = time.perf_counter()
    try:
        # As loader workers do: tensors go into shared memory.
        torch.multiprocessing.reductions.reduction.ForkingPickler.dumps(batch)  # type: ignore[attr-defined]  # torch's stubs do not export it
    except (pickle.PicklingError, TypeError, RuntimeError, OSError):
        return collated - start, None
    return collated - start, time.perf_counter() - collated


def _parts(dataset: Any, seconds: float) -> tuple[Part, ...]:
    """Return what loading a sample consists of: the transforms of a Compose, else what the user's code calls."""

    def load_some(recorder: cProfile.Profile | None = None) -> None:
        until = time.perf_counter() + seconds
        if recorder is not None:
            recorder.enable()
        for load in _samples_of(dataset):
            if time.perf_counter() > until:
                break
            try:
                load()
            except StopIteration:
                break

    transforms = _transforms_of(dataset)
    if not transforms:
        return parts_of(record_calls(load_some))
    timed = [_TimedTransform(transform) for transform in transforms]
    own = list(transforms)
    transforms[:] = timed
    start = time.perf_counter()
    try:
        load_some()
    finally:
        transforms[:] = own
    whole = time.perf_counter() - start
    parts = [Part(type(transform.own).__name__, transform.seconds / whole) for transform in timed]
    rest = Part("everything but the transforms", max(0.0, 1 - sum(part.share for part in parts)))
    return tuple(sorted([*parts, rest], key=lambda part: -part.share))


def _transforms_of(dataset: Any) -> list[Any] | None:
    """Return the list of transforms in a dataset's Compose, or in that of a Subset's dataset; None without one."""
    while dataset is not None:
        for name in ("transform", "transforms"):
            steps = getattr(getattr(dataset, name, None), "transforms", None)
            if isinstance(steps, list) and len(steps) > 1 and all(map(callable, steps)):
                return steps
        dataset = getattr(dataset, "dataset", None)
    return None


class _TimedTransform:
    """A transform that counts its seconds."""

    def __init__(self, own: Callable[..., Any]) -> None:
        self.own = own
        self.seconds = 0.0

    def __call__(self, *inputs: Any) -> Any:
        start = time.perf_counter()
        try:
            return self.own(*inputs)
        finally:
            self.seconds += time.perf_counter() - start
