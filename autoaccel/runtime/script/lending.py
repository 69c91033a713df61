"""Workers that load what they are handed, of one loader, from one of its epochs to the next."""

from __future__ import annotations

import collections
import contextlib
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as torch_loaders

from autoaccel.runtime.contents import Contents
from autoaccel.runtime.loaders import given_indices

_LOOK_SECONDS = 0.5  # that it may take to see whether samples are still made of the same; else nobody looks again


class LoadedBy(NamedTuple):
    """How batches are loaded."""

    processes: int = 0  # 0: the script's own loads them
    prefetch: int = 2  # batches that each has ready


class LoadingWorkers:
    """Workers of a loader, forked from the script's process."""

    def __init__(self, loader: DataLoader[Any], indices: Indices, are: LoadedBy, seed: int) -> None:
        """Start them, and hand them what comes next.

        Args:
            loader: Whose samples they load.
            indices: What its sampler gives.
            are: How many they are.
            seed: By which they draw random numbers, if they do: the one that the loader has drawn for that.
        """
        self.are = are
        self._lent = _Lent(indices)
        arguments = {
            "num_workers": are.processes,
            "prefetch_factor": are.prefetch,
            "persistent_workers": True,  # from one time that they are asked to the next
            "generator": torch.Generator().manual_seed(seed),
        }
        self._loads = given_indices(loader, self._lent, arguments)
        self._know = _made_of(loader)
        kind: Any = torch_loaders._MultiProcessingDataLoaderIter
        self._batches = kind(self._loads)
        # Else torch raises an error wherever the script is when one of them is killed; it is noticed when it is asked.
        torch._C._remove_worker_pids(id(self._batches))
        self._batches._worker_pids_set = False
        self.are_busy = bool(self._lent.out)
        """Whether somebody may ask them for a batch."""

    @property
    def go_on(self) -> bool:
        """Whether they begin another batch for each that they give."""
        return not self._lent.stops

    def hand_no_more(self) -> None:
        """Let them end what they have begun."""
        self._lent.stops = True

    def hand_out(self, indices: Indices) -> None:
        """Hand them what comes next, perhaps of another epoch.

        Raises:
            Exception: If they fail; see `take_back`.
        """
        self._lent.indices, self._lent.stops = indices, False
        self._batches._reset(self._loads)
        self.are_busy = bool(self._lent.out)

    def next_batch(self) -> Any:
        """Return the next batch of what they were handed.

        Raises:
            StopIteration: If they have given all of them.
            Exception: If they fail; see `take_back`.
        """
        try:
            batch = self._batches._next_data()
        except StopIteration:
            self.are_busy = False
            raise
        self._lent.out.popleft()
        return batch

    def take_back(self) -> None:
        """Give back what they were handed and nobody has asked for: it comes next, whoever loads it."""
        self._lent.indices.put_back(self._lent.out)

    def know_all(self, loader: DataLoader[Any]) -> bool:
        """Return whether samples are made of what they were when these were forked, as far as can be seen.

        Torch forks others for each epoch, as nobody knows that. But whatever a training writes to after a fork, the
        system copies page by page: the first step of an epoch took 1.4 s instead of 0.1 in one that writes to 1.6 GB
        (two cores of a virtual machine).

        Args:
            loader: Whose workers they are.
        """
        return self._know is not None and self._know == _made_of(loader)

    def end(self) -> None:
        """End them."""
        self._batches._shutdown_workers()


def _made_of(loader: DataLoader[Any]) -> Contents | None:
    """Return what samples of a loader are made of; None where that takes too long to see, or is not seen as a whole."""
    began = time.perf_counter()
    with contextlib.suppress(Exception):  # whatever the user's objects raise that are asked what nobody asks them
        found = Contents(one for one in (loader.dataset, loader.collate_fn, loader.worker_init_fn) if one is not None)
        if found.is_whole and time.perf_counter() - began < _LOOK_SECONDS:
            return found
    return None


class Indices:
    """What a sampler gives, for whoever loads it; what was handed out in vain comes again."""

    def __init__(self, own: Iterator[Any]) -> None:
        """Begin where the sampler is."""
        self.last: Any = None
        """What was handed out last."""
        self._own = own
        self._again: collections.deque[Any] = collections.deque()
        self._error: BaseException | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._again:
            self.last = self._again.popleft()
            return self.last
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        self.last = next(self._own)
        return self.last

    def put_back(self, handed_out: collections.deque[Any]) -> None:
        """Take back what was handed out and not loaded, the first of it first."""
        self._again.extendleft(reversed(handed_out))
        handed_out.clear()

    def ahead(self) -> Any:
        """Hand out the next one to somebody who asks ahead of the script: an error waits until it comes to that.

        Raises:
            StopIteration: If there is none, or an error comes next.
        """
        try:
            return next(self)
        except StopIteration:
            raise
        except Exception as error:
            self._error = error
            raise StopIteration from error


class _Lent:
    """The sampler of workers: hands out the next indices until it is to stop."""

    def __init__(self, indices: Indices) -> None:
        """Begin with nothing handed out."""
        self.out: collections.deque[Any] = collections.deque()
        """What was handed out, and whose batch was not asked for yet."""
        self.stops = False
        self.indices = indices

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.stops:
            raise StopIteration
        index = self.indices.ahead()
        self.out.append(index)
        return index
