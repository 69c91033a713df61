"""Names for the parts of a script that hold in every process that runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, ref

import torch
from torch.utils.data import DataLoader

from autoaccel.records.script import LoaderKey


class Numbers:
    """Numbers optimizers in the order of their first updates."""

    def __init__(self) -> None:
        self._numbers: WeakKeyDictionary[torch.optim.Optimizer, int] = WeakKeyDictionary()
        self._next = 0
        self._latest: tuple[ref[torch.optim.Optimizer], int] | None = None  # that was asked about, as mostly again

    def __contains__(self, optimizer: torch.optim.Optimizer) -> bool:
        return (self._latest is not None and self._latest[0]() is optimizer) or optimizer in self._numbers

    def of(self, optimizer: torch.optim.Optimizer) -> int:
        """Return the optimizer's number, the next one if it has none yet."""
        if self._latest is not None and self._latest[0]() is optimizer:
            return self._latest[1]
        number = self._numbers.get(optimizer)
        if number is None:
            number = self._numbers[optimizer] = self._next
            self._next += 1
        self._latest = ref(optimizer), number
        return number

    def begin_anew(self) -> None:
        """The script was started again: its optimizers are other objects, and come in the same order."""
        self._numbers.clear()
        self._latest = None
        self._next = 0


def key_of(loader: DataLoader[Any]) -> LoaderKey:
    """Return what tells a loader from the script's others."""
    batches_itself = loader.batch_size is None and loader.batch_sampler is not None
    sampler = loader.batch_sampler if batches_itself else loader.sampler
    size = size_of_batches(sampler) if batches_itself else loader.batch_size
    return LoaderKey(type(loader.dataset).__name__, length_of(loader.dataset), size, type(sampler).__name__)


def size_of_batches(sampler: Any) -> int | None:
    """Return how many samples the batches of a batch sampler have; None if it does not say, as torch's own does."""
    size = getattr(sampler, "batch_size", None)
    return size if isinstance(size, int) and size > 0 else None


Naming: TypeAlias = Callable[[LoaderKey], LoaderKey]
"""Leaves out of a loader's key what may be different in this process."""


def whole(key: LoaderKey) -> LoaderKey:
    """Return the key: the script is run as it was seen."""
    return key


def whatever_its_batches(key: LoaderKey) -> LoaderKey:
    """Return the key of a loader whose batches may have another size."""
    return LoaderKey(key.dataset, key.samples, None, key.sampler)


def whatever_its_arguments(key: LoaderKey) -> LoaderKey:
    """Return the key of a loader in a script that is run with other arguments."""
    return LoaderKey(key.dataset, None, None, key.sampler)


def ranks_now() -> int:
    """Return how many processes train together, as the script's own process group has it."""
    joined = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if joined else 1


def length_of(thing: Any) -> int | None:
    """Return how many elements something has; None if it does not say."""
    try:
        return len(thing)
    except (TypeError, NotImplementedError):
        return None
