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
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as torch_loaders

from autoaccel.records.script import LoaderKey
from autoaccel.runtime.loaders import given_indices
from autoaccel.runtime.script.events import put
from autoaccel.runtime.script.numbering import key_of

_TIMED = 64  # batches, the last ones, that say what loading takes
_IDLE_BATCHES = 64  # after which workers end that nobody asks for: to start them anew takes a tenth of a second


class LoadedBy(NamedTuple):
    """How batches are loaded."""

    processes: int = 0  # 0: the script's own loads them
    prefetch: int = 2  # batches that each has ready


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
                    self._begun[iterator] = _Feed(loader)

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
            feed.close()
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

    def __init__(self, loader: DataLoader[Any]) -> None:
        """Begin before its first batch."""
        self.loader = loader
        self.key = key_of(loader)
        self._is_lent = False  # whether workers have indices whose batches were not asked for yet
        self._indices: _Indices | None = None  # None as long as the iterator asks the sampler itself
        self._lent: _Lent | None = None
        self._workers: Any = None  # torch's iterator over what they load
        self._loads: DataLoader[Any] = loader  # the loader of that iterator
        self._are = LoadedBy()  # how many these are
        self._filling = 0  # batches until they load as fast as they are asked
        self._idle = 0  # batches that were loaded while they had nothing to do

    @property
    def has_workers(self) -> bool:
        """Whether there are any."""
        return self._workers is not None

    def take_over(self, iterator: Any) -> _Indices:
        """Return what gives the iterator its indices from now on."""
        if self._indices is None:
            self._indices = iterator._sampler_iter = _Indices(iterator._sampler_iter)
        return self._indices

    def given(self, iterator: Any, wanted: LoadedBy) -> _Given | None:
        """Return a batch of workers; None if the script's own process is to load the next one.

        Raises:
            Exception: If they fail; what they were to load is loaded by whoever is asked next.
        """
        is_first = self._indices is None
        indices = self.take_over(iterator)
        while True:
            if self._is_lent and self._lent is not None:
                if wanted != self._are:
                    self._lent.stops = True  # what they have begun comes first
                try:
                    batch = self._workers._next_data()
                except StopIteration:
                    self._is_lent = False
                    continue
                except Exception:
                    self.take_back()
                    raise
                self._lent.out.popleft()
                self._filling = max(0, self._filling - 1)
                return _Given(batch, not self._lent.stops and not self._filling)
            if not wanted.processes:
                self._idle += 1
                if self._idle >= _IDLE_BATCHES:
                    self.close()
                return None
            if not self._lend(iterator, indices, wanted):
                return None
            # At its beginning an epoch waits for its first batches under such settings, whenever it is trained.
            self._filling = 0 if is_first else wanted.processes * wanted.prefetch

    def _lend(self, iterator: Any, indices: _Indices, wanted: LoadedBy) -> bool:
        """Hand workers the indices that come next; return whether there are any."""
        if wanted != self._are:
            self.close()
        self._idle = 0
        try:
            if self._workers is None or self._lent is None:
                self._start(iterator, indices, wanted)
            else:
                self._lent.stops = False
                self._workers._reset(self._loads)
        except Exception:
            self.take_back()
            raise
        self._is_lent = bool(self._lent is not None and self._lent.out)
        return self._is_lent

    def _start(self, iterator: Any, indices: _Indices, wanted: LoadedBy) -> None:
        # Seeded by the number that the script's own iterator has drawn for workers, if it had any.
        generator = torch.Generator().manual_seed(iterator._base_seed)
        self._lent = _Lent(indices)
        arguments = {
            "num_workers": wanted.processes,
            "prefetch_factor": wanted.prefetch,
            "persistent_workers": True,  # from one time that they are asked to the next, for this iterator alone
            "generator": generator,
        }
        self._loads = given_indices(self.loader, self._lent, arguments)
        kind: Any = torch_loaders._MultiProcessingDataLoaderIter
        self._workers = kind(self._loads)
        self._are = wanted
        # Else torch raises an error wherever the script is when one of them is killed; it is noticed when it is asked.
        torch._C._remove_worker_pids(id(self._workers))
        self._workers._worker_pids_set = False

    def take_back(self) -> None:
        """End the workers; what they were to load comes next, whoever loads it."""
        if self._lent is not None and self._indices is not None:
            self._indices.put_back(self._lent.out)
        self.close()

    def close(self) -> None:
        """End the workers, which have nothing left to load."""
        workers, self._workers, self._lent = self._workers, None, None
        self._are, self._is_lent = LoadedBy(), False
        if workers is not None:
            workers._shutdown_workers()


class _Indices:
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

    def __init__(self, indices: _Indices) -> None:
        """Begin with nothing handed out."""
        self.out: collections.deque[Any] = collections.deque()
        """What was handed out, and whose batch was not asked for yet."""
        self.stops = False
        self._indices = indices

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.stops:
            raise StopIteration
        index = self._indices.ahead()
        self.out.append(index)
        return index
