"""Who loads what a script draws from its loader: the script's own process, or workers, from any batch on.

The script's own iterator stays; it asks for indices as before. Workers are handed those that come next, and hand back
the batches in the same order. So whoever loads, the script is given the same batches, and the same random numbers are
drawn in its process at the same moments.
"""

from __future__ import annotations

import collections
import contextlib
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from torch.utils.data import DataLoader
from torch.utils.data import dataloader as torch_loaders

from autoaccel.records.script import LoaderKey
from autoaccel.runtime.script.events import put
from autoaccel.runtime.script.lending import Indices, LoadedBy, LoadingWorkers
from autoaccel.runtime.script.numbering import key_of

_TIMED = 64  # batches, the last ones, that say what loading takes
_IDLE_BATCHES = 64  # after which workers end that nobody asks for: to start them anew takes a tenth of a second


class Loading(NamedTuple):
    """What it takes to load a batch in the script's own process."""

    seconds: float
    busy_seconds: float  # of these not asleep


class LoadedHere(NamedTuple):
    """A batch that the script's own process has loaded."""

    loader: DataLoader[Any]
    indices: Any  # of its samples, as the loader's sampler gave them
    batch: Any


class Feeds:
    """Hears of what this process loads for itself, and lets workers load it where that is wanted."""

    def __init__(self) -> None:
        """Begin to hear, of iterators that are made from now on."""
        self.unsettled = False
        """Whether a batch was not loaded as it will be from now on, since somebody has set it to False."""
        self.failed: Exception | None = None
        """Why workers load no more, if they have failed to; the script's own process has loaded what they should."""
        self._process = os.getpid()
        self._wanted = LoadedBy()
        self._begun: WeakKeyDictionary[Any, _Feed] = WeakKeyDictionary()  # by iterator
        self._between_epochs: WeakKeyDictionary[DataLoader[Any], LoadingWorkers] = WeakKeyDictionary()
        self._fed: LoaderKey | None = None  # of the loader whose batches workers may load
        self._dataset: Any = None  # of it; another's samples were not looked at
        self._tell_next: Callable[[LoadedHere], None] | None = None
        self._timed: dict[LoaderKey, collections.deque[Loading]] = {}
        kind: Any = torch_loaders._BaseDataLoaderIter
        alone: Any = torch_loaders._SingleProcessDataLoaderIter
        self._own_next = alone._next_data
        own_init = kind.__init__

        def begins(iterator: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            own_init(iterator, loader, *args, **kwargs)
            # One of another package's may keep count of its indices.
            if type(iterator) is alone and isinstance(loader, DataLoader) and os.getpid() == self._process:
                # Whatever a dataset of the user's raises that is asked for its length.
                with contextlib.suppress(Exception):
                    self._begun[iterator] = _Feed(loader, self._between_epochs.pop(loader, None))

        self._ends = [
            put(kind, "__init__", begins),
            put(alone, "_next_data", lambda iterator: self._next(iterator)),
        ]

    def loading(self, key: LoaderKey) -> Loading | None:
        """Return what loading a batch takes in the mean; None where this process loads none of them.

        Args:
            key: Of the loader.
        """
        timed = list(self._timed.get(key, ()))[1:]  # the first opens files and fills caches
        if not timed:
            return None
        return Loading(*(sum(each) / len(timed) for each in zip(*timed, strict=True)))

    def tell_next(self, key: LoaderKey, tell: Callable[[LoadedHere], None]) -> None:
        """Tell of the next batch that this process loads for itself, before the script has it.

        Args:
            key: Of the loader.
            tell: Told of it once.
        """
        self._fed, self._tell_next, self._dataset = key, tell, None

    def load_by(self, workers: LoadedBy) -> None:
        """Let what follows be loaded so, of the loader that was told of."""
        self._wanted = workers

    def end(self) -> None:
        """Hear of nothing more; the script's own process loads what comes next, and what workers have begun."""
        for feed in list(self._begun.values()):
            feed.take_back()
        for workers in list(self._between_epochs.values()):
            workers.end()
        self._between_epochs.clear()
        for end in reversed(self._ends):
            end()

    def _next(self, iterator: Any) -> Any:
        """Return an iterator's next batch, in the place of torch's own."""
        feed = self._begun.get(iterator)
        if feed is None or os.getpid() != self._process:
            return self._own_next(iterator)
        if feed.key != self._fed or not self._knows(feed.loader.dataset):
            return self._time(feed.key, iterator)
        if self._tell_next is not None:
            tell, self._tell_next = self._tell_next, None
            self._dataset = feed.loader.dataset
            indices = feed.take_over(iterator)
            batch = self._time(feed.key, iterator)
            tell(LoadedHere(feed.loader, indices.last, batch))
            return batch
        if self._wanted.processes or feed.has_workers:
            return self._fed_by(feed, iterator)
        return self._own_next(iterator)

    def _knows(self, dataset: Any) -> bool:
        return self._dataset is None or self._dataset is dataset

    def _fed_by(self, feed: _Feed, iterator: Any) -> Any:
        wanted = self._wanted if self.failed is None else LoadedBy()
        try:
            given = feed.given(iterator, wanted)
        except Exception as error:
            self.failed = error
            given = None
        if given is not None:
            self.unsettled = self.unsettled or not given.is_settled
            return given.batch
        try:
            return self._own_next(iterator)
        except StopIteration:
            if (workers := feed.ended()) is not None:
                self._between_epochs[feed.loader] = workers
            raise

    def _time(self, key: LoaderKey, iterator: Any) -> Any:
        began, busy = time.perf_counter(), time.thread_time()
        batch = self._own_next(iterator)
        taken = Loading(time.perf_counter() - began, time.thread_time() - busy)
        self._timed.setdefault(key, collections.deque(maxlen=_TIMED)).append(taken)
        return batch


class _Given(NamedTuple):
    """A batch that workers have loaded."""

    batch: Any
    is_settled: bool  # whether they will go on loading as they have loaded this one


class _Feed:
    """What one iterator over a loader gives, whoever loads it."""

    def __init__(self, loader: DataLoader[Any], workers: LoadingWorkers | None) -> None:
        """Begin before its first batch.

        Args:
            loader: That it is over.
            workers: That have loaded its epoch before, if any have.
        """
        self.loader = loader
        self.key = key_of(loader)
        self._indices: Indices | None = None  # None as long as the iterator asks the sampler itself
        self._workers = workers
        self._are_of_another_epoch = workers is not None
        self._filling = 0  # batches until workers load as fast as they are asked
        self._idle = 0  # batches that were loaded while they had nothing to do

    @property
    def has_workers(self) -> bool:
        """Whether there are any."""
        return self._workers is not None

    def take_over(self, iterator: Any) -> Indices:
        """Return what gives the iterator its indices from now on."""
        if self._indices is None:
            self._indices = iterator._sampler_iter = Indices(iterator._sampler_iter)
        return self._indices

    def given(self, iterator: Any, wanted: LoadedBy) -> _Given | None:
        """Return a batch of workers; None if the script's own process is to load the next one.

        Raises:
            Exception: If they fail; what they were to load is loaded by whoever is asked next.
        """
        is_first = self._indices is None
        indices = self.take_over(iterator)
        try:
            while True:
                if self._workers is not None and self._workers.are_busy:
                    if wanted != self._workers.are:
                        self._workers.hand_no_more()  # what they have begun comes first
                    with contextlib.suppress(StopIteration):
                        batch = self._workers.next_batch()
                        self._filling = max(0, self._filling - 1)
                        return _Given(batch, self._workers.go_on and not self._filling)
                elif not wanted.processes:
                    self._idle += 1
                    if self._idle >= _IDLE_BATCHES:
                        self.close()
                    return None
                elif not self._hand_out(iterator, indices, wanted, is_first):
                    return None
        except Exception:
            self.take_back()
            raise

    def _hand_out(self, iterator: Any, indices: Indices, wanted: LoadedBy, is_first: bool) -> bool:
        """Hand workers the indices that come next; return whether there are any."""
        workers = self._workers
        if workers is not None and (wanted != workers.are or self._know_too_little(workers)):
            self.close()
            workers = None
        self._are_of_another_epoch = False
        if workers is None:
            # Seeded by the number that the script's own iterator has drawn for workers, if it had any.
            workers = self._workers = LoadingWorkers(self.loader, indices, wanted, iterator._base_seed)
        else:
            workers.hand_out(indices)
        self._idle = 0
        # At its beginning an epoch waits for its first batches under such settings, whenever it is trained.
        self._filling = 0 if is_first else wanted.processes * wanted.prefetch
        return workers.are_busy

    def _know_too_little(self, workers: LoadingWorkers) -> bool:
        return self._are_of_another_epoch and not workers.know_all(self.loader)

    def take_back(self) -> None:
        """End the workers; what they were to load comes next, whoever loads it."""
        if self._workers is not None:
            self._workers.take_back()
        self.close()

    def ended(self) -> LoadingWorkers | None:
        """Return the workers, which have nothing left to load: for the next epoch."""
        workers, self._workers = self._workers, None
        return workers

    def close(self) -> None:
        """End the workers, which have nothing left to load."""
        if (workers := self.ended()) is not None:
            workers.end()
