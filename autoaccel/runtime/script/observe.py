"""Observe the first steps of a script, without any setting applied: what it trains, with what, and how."""

from __future__ import annotations

import collections
import inspect
import itertools
import random
import statistics
import sys
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader

from autoaccel.records.script import DOUBLE_BACKWARD, LoaderKey, OtherTraining
from autoaccel.records.workload import TrainingFacts
from autoaccel.runtime.accelerator import synchronize
from autoaccel.runtime.script.changing import SampleSources
from autoaccel.runtime.script.children import Children, trains_elsewhere
from autoaccel.runtime.script.cycle import last_training, period_of
from autoaccel.runtime.script.events import Events, RootCalls, before, listen, put
from autoaccel.runtime.script.facts import models_held, script_facts, training_facts
from autoaccel.runtime.script.following import where_another_follows
from autoaccel.runtime.script.numbering import Numbers, key_of
from autoaccel.runtime.script.own_updates import LeavesSeen, OwnUpdates
from autoaccel.runtime.script.places import is_called_by_torch, training_frames, user_frames
from autoaccel.runtime.script.planned import loops_around
from autoaccel.runtime.script.rounds import round_numbers
from autoaccel.runtime.script.seen import Before, Seen, growth_of
from autoaccel.runtime.script.trainers import model_of_trainer, planned_by_trainer
from autoaccel.runtime.script.trainings import SeenTraining, Trainings

_GRAD = inspect.signature(torch.autograd.grad)
_UPDATES = 24  # that are seen: a critic may make five before anybody else makes one
_MAX_SECONDS = 3.0  # from the first of them, if they repeat by then; somebody waits
_PATIENCE = 4  # times as long, until there was a step beside which nothing else was done, such as an evaluation
_MAX_DATASETS = 4  # of loaders that look alike: some scripts make a dataset for each epoch
_MIN_UPDATES = 8  # of another training, so that it is known to be one
_MAX_UPDATES = 2000  # without a repetition
_MAX_GRADIENTS = 1000  # computed before the first update: nobody accumulates so many
_OWN_UPDATES = 4  # computations of gradients, without an optimizer, after which updates by hand are looked for


class Observer(Events):
    """Hears of a script's first updates, and tells what it has seen once they repeat."""

    def __init__(
        self,
        finished: Callable[[TrainingFacts], None],
        first_step: Callable[[], None] = lambda: None,
        is_thrown_away: bool = True,
    ) -> None:
        """Begin with nothing seen.

        Args:
            finished: Called with what was seen; it does not return, unless the training goes on.
            first_step: Called once, after the first update.
            is_thrown_away: Whether the training is: else no sample is loaded besides its own, no sampler asked, and no
                other training waited for, here or in processes that it starts.
        """
        self._finished = finished
        self._first_step = first_step
        self._is_thrown_away = is_thrown_away
        self._seen = Seen()
        self._numbers = Numbers()
        self._trainings = Trainings(self._tell, waits=is_thrown_away)
        self._updates: list[int] = []
        self._begin = 0  # of them, with which the training began that is looked at
        self._ends: list[float] = []  # of each of them
        self._first_at = 0.0
        self._origins = self._seen.origins
        self._others: set[Hashable] = set()  # that were done since the last update, besides training
        self._gradients = 0  # computations of some, before the first update
        self._loaders: dict[LoaderKey, DataLoader[Any]] = {}
        self._sources: dict[LoaderKey, list[SampleSources]] = {}  # one of each of its datasets
        self._iterators: dict[int, LoaderKey] = {}  # by id
        self._drawn: collections.Counter[LoaderKey] = collections.Counter()  # batches since the last update
        self._looked_at: collections.Counter[LoaderKey] = collections.Counter()  # of them, without gradients
        self._backwards = 0  # since then, outside of closures
        self._seconds_of_reading = 0.0
        self._leaves: LeavesSeen | None = None  # at the first loss, of a script without an optimizer
        self._has_begun = self._is_updating = self._spawns = False
        self._roots: RootCalls | None = None
        self._children: Children | None = None
        self._ends_of_hearing: list[Callable[[], None]] = []

    def attach(self, failed: Callable[[BaseException], None]) -> None:
        """Hear of all that follows in this process."""
        ends = self._ends_of_hearing
        ends.append(listen(self, failed))
        self._roots = RootCalls(self._root_called)
        for kind in (nn.Module, torch.optim.Optimizer, DataLoader):
            ends.append(before(kind, "__init__", lambda thing, *_, **__: self._origins.note(thing)))
        self._hear_draws()
        self._hear_autocast()
        for holder, name, words in (
            (torch, "manual_seed", "seeds torch"),
            (numpy.random, "seed", "seeds numpy"),
            (random, "seed", "seeds random"),
            (torch.nn.utils, "clip_grad_norm_", "clips gradients by their norm"),
            (torch.nn.utils, "clip_grad_value_", "clips gradients by value"),
            (torch, "use_deterministic_algorithms", "asks for deterministic algorithms"),
        ):
            ends.append(before(holder, name, lambda *_, words=words, **__: self._does(words)))
        ends.append(before(sys.modules["torch.multiprocessing.spawn"], "start_processes", self._starts_processes))
        self._children = Children(partial(self._children_train, failed)) if self._is_thrown_away else None
        ends.append(before(torch.amp.GradScaler, "scale", self._loss_scaled))
        ends.append(before(torch.autograd, "grad", self._grad_called))

    def detach(self) -> None:
        """Hear of nothing that follows; not to be called within an update, whose hooks are being gone through."""
        for end in reversed(self._ends_of_hearing):
            end()
        self._ends_of_hearing.clear()
        if self._roots is not None:
            self._roots.end()

    @property
    def numbers(self) -> Numbers:
        """The numbers of the optimizers that were seen."""
        return self._numbers

    @property
    def optimizers(self) -> tuple[torch.optim.Optimizer, ...]:
        """Those that have made updates."""
        return tuple(self._seen.optimizers)

    def ended(self) -> bool:
        """The script has ended: tell what was seen, if there was anything."""
        if self.own_updates is not None:
            self.own_updates.end()
        start = self._begin + last_training(self._updates[self._begin :], at_least=2)
        if (not self._trainings.found and self._updates) or (self._is_another and period_of(self._updates[start:])):
            self._trainings.add(self._training(start))
        if self._trainings.found:
            self._trainings.end()
        if self._spawns:
            raise trains_elsewhere("torch.multiprocessing")
        if self._children is not None and self._children.updates:
            raise trains_elsewhere("multiprocessing")
        return False

    def _children_train(self, failed: Callable[[BaseException], None]) -> None:
        if not self._updates:
            failed(trains_elsewhere("multiprocessing"))

    def _starts_processes(self, *_: Any, **__: Any) -> None:
        self._spawns = True

    def _does(self, words: str) -> None:
        # A module that is imported may do it for itself, and so may a compiler.
        is_users = next(user_frames(), None) is not None and not is_called_by_torch()
        if is_users and words not in self._seen.does:
            self._seen.does.append(words)

    def _loss_scaled(self, scaler: torch.amp.GradScaler, *_: Any) -> None:
        if scaler.is_enabled():  # scripts for all devices call one that does nothing on most
            self._does("scales the loss (GradScaler)")

    def _grad_called(self, *args: Any, **kwargs: Any) -> None:
        if _GRAD.bind(*args, **kwargs).arguments.get("create_graph"):
            self._does(DOUBLE_BACKWARD)

    def _hear_draws(self) -> None:
        """Hear of each batch that is drawn from a loader of torch's."""
        iterators: Any = torch.utils.data.dataloader._BaseDataLoaderIter
        begins, draws = iterators.__init__, iterators.__next__

        # Not from what its `__iter__` returns: that may wrap what draws, and a loader's own may keep that over epochs.
        def begun(iterator: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            self._iterators.pop(id(iterator), None)  # of one that is gone
            if isinstance(loader, DataLoader):
                key = self._iterators[id(iterator)] = key_of(loader)
                if not any(sources.are_of(loader) for sources in self._sources.get(key, ())):
                    self.loader_begins(loader)
            begins(iterator, loader, *args, **kwargs)

        def drawn(iterator: Any) -> Any:
            key = self._iterators.get(id(iterator))
            if key is None:
                return draws(iterator)
            for sources in self._sources[key]:
                sources.loads()
            batch = draws(iterator)
            if torch.is_grad_enabled():
                self._drawn[key] += 1
            else:  # it is evaluated on, be it from the loader that feeds the training
                self._looked_at[key] += 1
                self._others.add(("evaluates", key))
            for sources in self._sources[key]:
                sources.loaded()
            return batch

        self._ends_of_hearing += [put(iterators, "__init__", begun), put(iterators, "__next__", drawn)]

    def _hear_autocast(self) -> None:
        kind: Any = torch.autocast
        own = kind.__enter__

        def enter(context: Any) -> Any:
            entered = own(context)
            device = context.device
            if torch.is_grad_enabled() and torch.is_autocast_enabled(device):
                self._seen.autocast.add(str(torch.get_autocast_dtype(device)).removeprefix("torch."))
            return entered

        self._ends_of_hearing.append(put(kind, "__enter__", enter))

    def _root_called(self, module: nn.Module, trains: bool) -> None:
        is_known = any(root is module for root in self._seen.roots)
        if trains and not is_known:
            self._seen.roots.append(module)
        if trains and self._has_begun:
            self._seen.roots_in_steps.add(id(module))
        if is_known and not trains:
            self._others.add(id(module))

    def loader_begins(self, loader: DataLoader[Any]) -> None:
        """Keep it, to tell what it is."""
        key = key_of(loader)
        self._loaders[key] = loader
        self._others.add(key)
        of_key = self._sources.setdefault(key, [])
        if not any(sources.are_of(loader) for sources in of_key) and len(of_key) < _MAX_DATASETS:
            of_key.append(SampleSources(loader))
        for sources in of_key:
            sources.epoch_begins()

    def saves(self) -> None:
        """Note it: a checkpoint is no step."""
        self._others.add("save")

    def differentiates(self) -> None:
        """Look for updates that the script makes itself, and give up once there were none for long.

        Raises:
            BadRequestError: If there were none.
        """
        self._gradients += 1
        if self._has_begun or self.own_updates is not None:
            return
        if self._gradients == _MAX_GRADIENTS:
            raise self._seen.no_optimizer(self._gradients)
        if self._gradients % _OWN_UPDATES == 0 and not self._origins.all(torch.optim.Optimizer):
            self._look_for_own_updates()

    def _look_for_own_updates(self) -> None:
        """From here on, take each computation of gradients for a step if the script makes its updates itself.

        It does if what it takes gradients for changes. torch.func and autograd.grad() give gradients to the script, so
        there is nothing else that they could be for.
        """
        if self._leaves is not None and not self._leaves.have_changed():
            return
        roots = (parameter for root in self._seen.roots for parameter in root.parameters())
        updated = self._leaves.leaves if self._leaves is not None else list(roots)
        self._seen.updates_itself = True
        by_backward = self._leaves is not None
        self.own_updates = OwnUpdates(self, by_backward, updated)
        self.own_updates.gradients_begin(by_backward)
        # What was done until now was done beside several updates.
        self._begin_gap()

    def _begin_gap(self) -> None:
        self._others, self._drawn, self._looked_at = set(), collections.Counter(), collections.Counter()
        self._backwards = 0

    def backward_begins(self, loss: torch.Tensor) -> None:
        """Note whether it is one number."""
        if self._leaves is None and not self._origins.all(torch.optim.Optimizer):
            self._leaves = LeavesSeen(loss)
        self.differentiates()
        self._seen.has_loss = loss.numel() == 1
        if not self._is_updating:  # else it is in a closure
            self._backwards += 1

    def update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """Take the time from the first step on."""
        if not self._has_begun:
            self._has_begun = True
            self._first_at = self._now()
        began, frames = time.perf_counter(), list(user_frames())
        self._seen.rounds.append(round_numbers(frames))
        self._seconds_of_reading += time.perf_counter() - began
        if optimizer not in self._numbers:
            self._numbers.of(optimizer)
            self._seen.optimizers.append(optimizer)
            self._seen.loops.append(loops_around(list(training_frames())))
            if self._trainings.found:
                self._trainings.begins(self._seen.loops[-1])
                self._begin, self._first_at = len(self._updates), self._now()
            self._seen.follows.append(where_another_follows(frames))
            for sources in itertools.chain.from_iterable(self._sources.values()):
                sources.read(frames)
            self._seen.plans.append(planned_by_trainer())
            self._seen.held.append(model_of_trainer())
        elif self._trainings.goes_on(len(self._updates)):
            self._trainings.read_on(loops_around(list(training_frames())), where_another_follows(frames))
        self._is_updating = True

    def update_ended(self, optimizer: torch.optim.Optimizer) -> None:
        """Look at what has happened since the last one, and tell if that was enough."""
        self._is_updating = False
        self._updates.append(self._numbers.of(optimizer))
        self._seen.before.append(Before(frozenset(self._others), self._drawn, self._looked_at, self._backwards))
        self._begin_gap()
        synchronize(next(iter(optimizer.param_groups[0]["params"])).device)
        now = self._now()
        self._ends.append(now)
        if len(self._updates) == 1:
            self._first_step()
        if self._trainings.found and not self._is_another:
            return
        if self._updates[-1] < self._updates[self._begin]:
            self._trainings.end()  # what seemed to be another training has joined the one before it
        if len(self._updates) - self._begin >= _UPDATES or self._has_waited(now - self._first_at):
            start = self._begin + last_training(self._updates[self._begin :], _MIN_UPDATES)
            if period_of(self._updates[start:]) or len(self._updates) >= _MAX_UPDATES:
                self._trainings.add(self._training(start))

    @property
    def _is_another(self) -> bool:
        """Whether another training has begun after the last one that was found."""
        return bool(self._trainings.found) and self._begin > self._trainings.found[-1].start

    def _now(self) -> float:
        """Return a time from which that is left out in which we look around ourselves."""
        looking = sum(sources.seconds for sources in itertools.chain.from_iterable(self._sources.values()))
        return time.perf_counter() - looking - self._seconds_of_reading

    def _has_waited(self, seconds: float) -> bool:
        """Whether enough was seen for the time that it takes: a step beside which nothing else was done, at best."""
        if seconds <= _MAX_SECONDS:
            return False
        later = self._seen.before[self._begin + 1 :]
        return seconds > _PATIENCE * _MAX_SECONDS or any(self._seen.trains_alone(gap) for gap in later)

    def _training(self, start: int) -> SeenTraining:
        """Return the training that begins with an update."""
        seen, period = self._seen.copy(), period_of(self._updates[start:])
        if period is None:
            raise seen.no_period(len(self._updates))
        seen.take(period, start)
        before = self._ends[start - 1] if start > self._begin else self._first_at
        ends = [before, *self._ends[start + len(period) - 1 :: len(period)]]
        seconds = [late - early for early, late in itertools.pairwise(ends)]
        # The first one began before its update did.
        later = seconds[1:] or seconds
        trains = seen.steps_alone[1:]
        alone = [each for each, does in zip(seconds[1:], trains, strict=False) if does]
        seen.step_seconds = statistics.median(alone or later)
        seen.growth = growth_of(alone)
        beside = [each - seen.step_seconds for each, does in zip(seconds[1:], trains, strict=False) if not does]
        seen.seen_seconds, seen.other_seconds = sum(later), max(0.0, sum(beside))
        seen.loaders = {key: self._loaders[key] for key in self._loaders if seen.draws(key)}
        seen.compiles = seen.compiles or _has_compiled()
        seen.held_as = models_held(seen)
        return SeenTraining(seen, start, self._updates[self._begin : start] if not self._begin else [])

    def _tell(self, training: SeenTraining, others: tuple[OtherTraining, ...]) -> None:
        seen = training.seen
        trained = {id(one) for each in seen.optimizers for group in each.param_groups for one in group["params"]}
        for key in filter(seen.draws, self._sources):
            asked = self._sources[key] if self._is_thrown_away else ()
            reasons = [sources.ended(trained) for sources in asked]
            seen.loading_bound[key] = next(filter(None, reasons), "")
        seen.others = others
        self._finished(training_facts(seen, script_facts(seen), self._is_thrown_away))


def _has_compiled() -> bool:
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters: Any = dynamo.counters if dynamo is not None else collections.defaultdict(dict)
    return bool(counters["stats"].get("unique_graphs"))
