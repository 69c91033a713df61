"""Observe the first steps of a script, without any setting applied: what it trains, with what, and how."""

from __future__ import annotations

import collections
import itertools
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader

from autoaccel.records.script import LoaderKey
from autoaccel.records.workload import TrainingFacts
from autoaccel.runtime.accelerator import synchronize
from autoaccel.runtime.script.cycle import period_of
from autoaccel.runtime.script.events import Events, RootCalls, before, listen
from autoaccel.runtime.script.facts import Seen, script_facts, training_facts
from autoaccel.runtime.script.numbering import Numbers, key_of
from autoaccel.runtime.script.places import user_frames, where_constructed
from autoaccel.runtime.script.planned import loops_around

_UPDATES = 24  # that are seen: a critic may make five before anybody else makes one
_MAX_SECONDS = 3.0  # from the first of them, if they repeat by then; somebody waits
_MAX_UPDATES = 2000  # without a repetition


class Observer(Events):
    """Hears of a script's first updates, and tells what it has seen once they repeat."""

    def __init__(self, finished: Callable[[TrainingFacts], None]) -> None:
        """Begin with nothing seen.

        Args:
            finished: Called with what was seen; it does not return.
        """
        self._finished = finished
        self._seen = Seen()
        self._numbers = Numbers()
        self._updates: list[int] = []
        self._ends: list[float] = []  # of each of them
        self._first_at = 0.0
        self._where: dict[int, str] = {}  # by id: where it was constructed
        self._loaders: dict[LoaderKey, DataLoader[Any]] = {}
        self._iterators: dict[int, LoaderKey] = {}  # by id
        self._drawn: set[LoaderKey] = set()  # from, since the last update
        self._backwards = 0
        self._roots: RootCalls | None = None

    def attach(self, failed: Callable[[BaseException], None]) -> None:
        """Hear of all that follows in this process."""
        listen(self, failed)
        self._roots = RootCalls(self._root_called)
        for kind in (nn.Module, torch.optim.Optimizer, DataLoader):
            before(kind, "__init__", lambda thing, *_, **__: self._constructed(thing))
        self._hear_draws()
        for holder, name, words in (
            (torch, "manual_seed", "seeds torch"),
            (numpy.random, "seed", "seeds numpy"),
            (random, "seed", "seeds random"),
            (torch.nn.utils, "clip_grad_norm_", "clips gradients by their norm"),
            (torch.nn.utils, "clip_grad_value_", "clips gradients by value"),
            (torch.amp.GradScaler, "scale", "scales the loss (GradScaler)"),
            (torch, "use_deterministic_algorithms", "asks for deterministic algorithms"),
        ):
            before(holder, name, lambda *_, words=words, **__: self._does(words))

    def ended(self) -> bool:
        """The script has ended: tell what was seen, if there was anything."""
        if self._updates:
            self._tell(period_of(self._updates) or ((0,) if set(self._updates) == {0} else None))
        return False

    def _does(self, words: str) -> None:
        # A module that is imported may do it for itself.
        if next(user_frames(), None) is not None and words not in self._seen.does:
            self._seen.does.append(words)

    def _constructed(self, thing: Any) -> None:
        self._where[id(thing)] = where_constructed(thing)

    def _hear_draws(self) -> None:
        """Hear of each batch that is drawn from a loader of torch's."""
        iterators: Any = torch.utils.data.dataloader._BaseDataLoaderIter
        begins, draws = DataLoader.__iter__, iterators.__next__

        def begun(loader: DataLoader[Any]) -> Any:
            iterator = begins(loader)
            self._iterators[id(iterator)] = key_of(loader)
            return iterator

        def drawn(iterator: Any) -> Any:
            batch = draws(iterator)
            if key := self._iterators.get(id(iterator)):
                self._drawn.add(key)
                self._seen.draws[key] += 1
            return batch

        DataLoader.__iter__, iterators.__next__ = begun, drawn  # type: ignore[method-assign]

    def _root_called(self, module: nn.Module) -> None:
        if module not in self._seen.roots:
            self._seen.roots.append(module)
            self._seen.where[id(module)] = self._where.get(id(module), "")
        device = next(module.parameters()).device.type
        if torch.is_autocast_enabled(device):
            self._seen.autocast.add(str(torch.get_autocast_dtype(device)).removeprefix("torch."))

    def loader_begins(self, loader: DataLoader[Any]) -> None:
        """Keep it, to tell what it is."""
        self._loaders[key_of(loader)] = loader
        self._seen.where[id(loader)] = self._where.get(id(loader), "")

    def backward_begins(self, loss: torch.Tensor) -> None:
        """Note whether it is one number."""
        self._backwards += 1
        self._seen.has_loss = loss.numel() == 1

    def update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """Take the time from the first step on."""
        if not self._updates:
            self._first_at = time.perf_counter()
            self._seen.loops = loops_around(list(user_frames()))

    def update_ended(self, optimizer: torch.optim.Optimizer) -> None:
        """Look at what has happened since the last one, and tell if that was enough."""
        number = self._numbers.of(optimizer)
        if number == len(self._seen.optimizers):
            self._seen.optimizers.append(optimizer)
            self._seen.where[id(optimizer)] = self._where.get(id(optimizer), "")
        self._updates.append(number)
        synchronize(next(iter(optimizer.param_groups[0]["params"])).device)
        now = time.perf_counter()
        self._ends.append(now)
        for key in self._drawn:
            self._seen.gaps[key] += 1
        self._drawn.clear()
        if len(self._updates) >= _UPDATES or now - self._first_at > _MAX_SECONDS:
            if period := period_of(self._updates):
                self._tell(period)
            elif len(self._updates) >= _MAX_UPDATES:
                self._tell(None)

    def _tell(self, period: tuple[int, ...] | None) -> None:
        seen = self._seen
        if period is None:
            raise seen.no_period(len(self._updates))
        seen.period, seen.updates, seen.backwards = period, len(self._updates), self._backwards
        ends = self._ends[len(period) - 1 :: len(period)]
        seconds = [late - early for early, late in itertools.pairwise(ends)]
        seen.step_seconds = statistics.median(seconds) if seconds else ends[0] - self._first_at
        seen.loaders = {key: self._loaders[key] for key in self._loaders if key in seen.draws}
        seen.compiles = seen.compiles or _has_compiled()
        self._finished(training_facts(seen, script_facts(seen)))


def _has_compiled() -> bool:
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters: Any = dynamo.counters if dynamo is not None else collections.defaultdict(dict)
    return bool(counters["stats"].get("unique_graphs"))
