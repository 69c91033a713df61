"""Whether a dataset gives the same samples each time, and how much memory they would take."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.data import IterableDataset

from autoaccel.runtime.batches import parts_of

_LOOKED_AT = 8  # samples, spread over the dataset, each loaded twice


def bytes_if_cached(dataset: Any) -> int | None:
    """Return the bytes that all samples take in memory; None if some are not the same each time, or have no number.

    A transform that draws random numbers is noticed because each sample is loaded from two states of the generators.
    What they were is restored.
    """
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__") or not len(dataset):
        return None
    step = max(1, len(dataset) // _LOOKED_AT)
    numbers = range(0, len(dataset), step)[:_LOOKED_AT]
    sizes = []
    for number in numbers:
        once, twice = _load(dataset, number, seed=0), _load(dataset, number, seed=1)
        if not _is_same(once, twice):
            return None
        sizes.append(bytes_of(once))
    return round(sum(sizes) / len(sizes) * len(dataset))


def _load(dataset: Any, number: int, seed: int) -> Any:
    """Return a sample, loaded after all generators were seeded."""
    import random

    state = random.getstate()
    numpy = sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy else None
    try:
        with torch.random.fork_rng(devices=[]):
            random.seed(seed)
            torch.manual_seed(seed)
            if numpy:
                numpy.random.seed(seed)
            return dataset[number]
    finally:
        random.setstate(state)
        if numpy and numpy_state is not None:
            numpy.random.set_state(numpy_state)


def _is_same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(_is_same, one, other))
    same = one == other
    return bool(same.all()) if hasattr(same, "all") else bool(same)


def bytes_of(sample: Any) -> int:
    """Return the bytes that the numbers in a sample, or in a batch, take."""
    if isinstance(sample, torch.Tensor):
        return sample.element_size() * sample.numel()
    if parts := parts_of(sample):
        return sum(map(bytes_of, parts))
    return int(getattr(sample, "nbytes", sys.getsizeof(sample)))
