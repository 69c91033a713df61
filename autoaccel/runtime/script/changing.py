"""Whether a training changes, while it trains, what its samples are made of: loader workers would not see that."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from types import FrameType
from typing import Any

from torch.utils.data import DataLoader

from autoaccel.runtime.contents import Kept, changed_between, values_in
from autoaccel.runtime.datasets import why_bound
from autoaccel.runtime.held import (
    changed_as_it_trains,
    computes_with_trained,
    names_read,
    trained_in,
)
from autoaccel.runtime.randomness import Apart, state_of
from autoaccel.runtime.script.told import counted_by_loading, told_in_loops

_MAX_SECONDS = 1.0  # for looking, of a training of which somebody waits for the first table
_ORDERED = 20_000  # samples, or batches of them, of a sampler that is asked, at most,
_ORDER_SECONDS = 0.3  # or as many as it gives in so long


_DECIDES_ON_ORDER = "the training decides on the order of samples as it trains ({name}), and workers ask it earlier"


class SampleSources:
    """Sees whether anything that a loader's samples come from changes between two loads of it.

    What changes while a sample is loaded, such as a cache, is the dataset's own affair: it does so in workers as well.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        """Look at it before anything of it is loaded: what is opened then, every process opens for itself."""
        own = (loader.dataset, loader.collate_fn, loader.worker_init_fn)
        self._sources = [one for one in own if one is not None]
        self._loader = loader
        self._order = [loader.batch_sampler if loader.batch_sampler is not None else loader.sampler]
        self._names = names_read(self._sources)
        self._names_of_order = names_read(self._order)
        self._last: tuple[dict[str, Kept], dict[str, Kept] | None] | None = None
        self.seconds = 0.0
        """That were spent on looking."""
        self.why = why_bound(loader)
        """Why samples must be loaded where and when the training loads them; empty as long as nothing says so."""

    def are_of(self, loader: DataLoader[Any]) -> bool:
        """Whether a loader has the same dataset: scripts make loaders anew each epoch."""
        return loader.dataset is self._loader.dataset

    def epoch_begins(self) -> None:
        """A sampler may be told something between two epochs: it is asked in the training's own process."""
        if self._last is not None:
            self._last = self._last[0], None

    def loads(self) -> None:
        """A batch is about to be drawn."""
        if self._last is not None:
            self._look(self._compare)

    def loaded(self) -> None:
        """A batch was drawn."""
        self._look(self._keep)

    def _look(self, how: Callable[[], None]) -> None:
        if self.why or self.seconds > _MAX_SECONDS:
            return
        began = time.perf_counter()
        try:
            how()
        except Exception as error:  # whatever the user's objects raise where they are asked what nobody asks them
            self.why = f"what its samples come from cannot be looked at ({type(error).__name__})"
        self.seconds += time.perf_counter() - began

    def _keep(self) -> None:
        self._last = values_in(self._sources), values_in(self._order)

    def _compare(self) -> None:
        assert self._last is not None
        before, order = self._last
        if name := changed_between(before, values_in(self._sources), self._names):
            self.why = changed_as_it_trains(name)
        elif order is not None and (name := changed_between(order, values_in(self._order), self._names_of_order)):
            self.why = _DECIDES_ON_ORDER.format(name=name)

    def read(self, frames: Sequence[FrameType]) -> None:
        """Read whether the loops around an update change anything, perhaps in an epoch that is far away."""
        if self.why:
            return
        if name := told_in_loops(frames, self._sources):
            self.why = changed_as_it_trains(name)
        elif name := counted_by_loading(self._sources):
            self.why = f"a sample depends on how many were loaded before it ({name}), and each worker counts its own"
        elif name := told_in_loops(frames, self._order, within_epoch=True):
            self.why = _DECIDES_ON_ORDER.format(name=name)

    def ended(self, trained: Collection[int]) -> str:
        """Return why samples must be loaded where and when they are; the sampler is asked, and not to be used again.

        Args:
            trained: Ids of the parameters that are.
        """
        if not self.why and (name := trained_in(self._sources, trained)):
            self.why = computes_with_trained(name)
        if not self.why and draws_among_others(self._loader):
            self.why = "its sampler draws random numbers between those of the training, and workers ask it earlier"
        return self.why


def draws_among_others(loader: DataLoader[Any]) -> bool:
    """Whether the sampler draws from the generators that a process shares at other moments where workers load.

    Torch's own draw a seed with the first sample of an epoch. One that draws with each sample draws between the numbers
    of the training; one of batches that draws when it is asked for an iterator is asked twice by a loader with workers
    (torch 2.13.0).
    """
    own = "torch.utils.data"
    index = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    if type(index).__module__.startswith(own) and type(loader.sampler).__module__.startswith(own):
        return False
    try:
        with Apart(0):
            before = state_of()
            asked = iter(index)
            if state_of() != before:
                return True
            next(asked, None)
            before = state_of()
            until = time.perf_counter() + _ORDER_SECONDS
            for _, _one in zip(range(_ORDERED), asked, strict=False):
                if time.perf_counter() > until:
                    break
            return state_of() != before
    except Exception:  # whatever the user's sampler raises
        return False
