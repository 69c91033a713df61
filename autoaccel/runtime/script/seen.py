"""What an observer has seen of a script, torch's own objects included."""

from __future__ import annotations

import collections
import copy
import itertools
import statistics
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.data import DataLoader

from autoaccel.errors import BadRequestError
from autoaccel.records.script import LoaderKey, OtherTraining
from autoaccel.runtime.script.places import Origins
from autoaccel.runtime.script.planned import EnclosingLoop
from autoaccel.runtime.script.rounds import RoundNumbers
from autoaccel.runtime.script.trainers import TrainerPlan

_IN_ORDER = 0.8
_GROWN = 1.2  # by a fifth: what a step takes scatters by less


class Before(NamedTuple):
    """What was done before an update, since the one before it."""

    others: frozenset[Hashable]  # besides training
    drawn: collections.Counter[LoaderKey]  # batches
    looked_at: collections.Counter[LoaderKey]  # batches drawn while gradients were switched off
    backwards: int  # outside of closures


def _told_once(called: list[nn.Module], in_steps: set[int]) -> list[nn.Module]:
    """Return the models among the modules that were called, each once.

    A part may be called before training, to find out what size its output has: where anything is called after the first
    update, that alone counts. A package may wrap a model anew for each call, as solvers do: it is what lies within.

    Args:
        called: By no other module.
        in_steps: The ids of those that are called after the first update.
    """
    parameters = {id(root): frozenset(map(id, root.parameters())) for root in called}
    times = collections.Counter(parameters.values())
    found: dict[frozenset[int], nn.Module] = {}
    for root in called:
        held = parameters[id(root)]
        if not in_steps or id(root) in in_steps:
            found.setdefault(held, root if times[held] == 1 else _within(root, held))
    return list(found.values())


def _within(module: nn.Module, parameters: frozenset[int]) -> nn.Module:
    """Return the innermost module that has these parameters and no others."""
    for child in module.children():
        if frozenset(map(id, child.parameters())) == parameters:
            return _within(child, parameters)
    return module


class Seen:
    """What an observer has seen, torch's own objects included."""

    def __init__(self) -> None:
        self.roots: list[nn.Module] = []
        self.roots_in_steps: set[int] = set()  # the ids of those that are called after the first update as well
        self.optimizers: list[torch.optim.Optimizer] = []
        self.loaders: dict[LoaderKey, DataLoader[Any]] = {}
        self.origins = Origins()
        self.autocast: set[str] = set()
        self.does: list[str] = []
        self.loops: list[list[EnclosingLoop]] = []  # around the first update of each optimizer
        self.plans: list[TrainerPlan | None] = []  # likewise, of a trainer that makes it
        self.held: list[nn.Module | None] = []  # likewise, the model that this says it trains
        self.before: list[Before] = []  # each update
        self.rounds: list[RoundNumbers] = []  # of each update, those of other trainings before included
        self.start = 0  # the first update of the training
        self.compiles = False
        self.has_loss = False
        self.updates_itself = False
        self.loading_bound: dict[LoaderKey, str] = {}  # why samples must be loaded where and when they are
        self.follows: list[str] = []  # where another training follows, as is read at the first update of each optimizer
        self.held_as: dict[int, tuple[str, ...] | None] = {}  # variables that hold each model, by its id
        self.others: tuple[OtherTraining, ...] = ()
        self.period: tuple[int, ...] = ()
        self.growth = 1.0  # of the time that a step takes, over those seen
        self.step_seconds = self.seen_seconds = self.other_seconds = 0.0

    def copy(self) -> Seen:
        """Return what was seen until now, of the same objects."""
        other = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (list, dict, set)):
                setattr(other, name, copy.copy(value))
        return other

    @property
    def steps(self) -> int:
        """Whole steps that were seen."""
        return max(1, len(self.before) // len(self.period))

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The first optimizer of a step."""
        return self.optimizers[self.period[0]]

    @property
    def device(self) -> torch.device:
        """Where the parameters lie that are updated."""
        found: torch.device = self.optimizer.param_groups[0]["params"][0].device
        return found

    def take(self, period: tuple[int, ...], start: int) -> None:
        """Take what was seen from this update on for the training, whose steps have this period."""
        self.period, self.before, self.start = period, self.before[start:], start
        self.roots = _told_once(self.roots, self.roots_in_steps)
        keys = {key for gap in self.before for key in gap.looked_at}
        if keys and not any(self.feeds(key) for key in {key for gap in self.before for key in gap.drawn}):
            # A function fetches them that switches gradients off for itself: they are trained on all the same.
            self.before = [
                gap._replace(drawn=gap.drawn + gap.looked_at, looked_at=collections.Counter()) for gap in self.before
            ]

    def trains_alone(self, gap: Before) -> bool:
        """Whether nothing was done before an update that was not done before the first one, but batches drawn."""
        return not gap.others - gap.drawn.keys() - self.before[0].others

    @property
    def steps_alone(self) -> list[bool]:
        """Of each whole step, whether it trains and nothing else."""
        length = len(self.period)
        alone = [self.trains_alone(gap) for gap in self.before]
        return [all(alone[first : first + length]) for first in range(0, len(alone) - length + 1, length)]

    def feeds(self, key: LoaderKey) -> bool:
        """Whether a loader's batches are trained on: it was drawn from before most steps."""
        return sum(before.drawn[key] > 0 for before in self.before) > self.steps / 2

    def draws(self, key: LoaderKey) -> int:
        """Return how many batches were drawn from a loader."""
        return sum(before.drawn[key] + before.looked_at[key] for before in self.before)

    @property
    def batches_a_step(self) -> int:
        """How many batches of the loader that feeds it a step takes: more than one are accumulated."""
        return max(1, max((self._draws_a_step(key) for key in self.loaders if self.feeds(key)), default=0))

    def _draws_a_step(self, key: LoaderKey) -> int:
        """Return how many batches a whole step takes from a loader, as most do that neither begin nor end an epoch.

        Where there are none, it is the most that was seen: the last step of an epoch may have what is left. The first
        step is left out where there are others: statistics, a peek or a batch fetched ahead come before it.
        """
        drawn, begins = self._draws(key)
        apart = [first or last for first, last in zip(begins, [*begins[1:], True], strict=True)]
        inner = [draws for draws, is_apart in zip(drawn, apart, strict=True) if not is_apart]
        return statistics.median_high(inner) if inner else max(drawn[1:] or drawn)

    def _draws(self, key: LoaderKey) -> tuple[list[int], list[bool]]:
        """Return of each whole step how many batches it takes from a loader, and whether an epoch begins with it."""
        length = len(self.period)
        steps = [self.before[first : first + length] for first in range(0, self.steps * length, length)]
        drawn = [sum(gap.drawn[key] for gap in step) for step in steps]
        return drawn, [any(key in gap.others for gap in step) for step in steps]

    @property
    def rest(self) -> str:
        """What becomes of the batches at the end of an epoch that are too few for a step.

        "step": a smaller one is made of them. "left": the next epoch's first step has them besides. "carried": it has
        them among its own. Empty if the end of none was seen.
        """
        for key in filter(self.feeds, self.loaders):
            drawn, begins = self._draws(key)
            later = [place for place in range(1, len(drawn)) if begins[place]]
            if any(drawn[place - 1] < self.batches_a_step for place in later if place > 1):
                return "step"
            if later:
                return "left" if any(drawn[place] > self.batches_a_step for place in later) else "carried"
        return ""

    @property
    def backwards(self) -> int:
        """How many calls of backward() were seen, outside of closures."""
        return sum(before.backwards for before in self.before)

    @property
    def evaluations(self) -> int:
        """How many gaps between steps had something else in them, loaders that feed the training aside."""
        length = len(self.period)
        steps = [
            frozenset[Hashable]().union(*(each.others for each in self.before[first : first + length]))
            for first in range(0, len(self.before) - length + 1, length)
        ]
        often = collections.Counter(itertools.chain(*steps))
        # What is done beside most steps belongs to them.
        apart = {how for how in often if often[how] <= len(steps) / 2}
        apart -= {how for how in apart if isinstance(how, LoaderKey) and self.feeds(how)}
        return sum(bool(others & apart) for others in steps)

    @property
    def accumulated(self) -> int:
        """How many backward passes over batches of their own make up the gradients of an update."""
        if any(self.feeds(key) for key in self.loaders):  # one batch may take several, as that of a discriminator
            return self.batches_a_step // len(self.period)
        return self.backwards // len(self.before)

    def no_optimizer(self, gradients: int) -> BadRequestError:
        """Return the error that nothing makes updates."""
        return BadRequestError(
            f"it has computed gradients {gradients:,} times without a step of any torch.optim optimizer, so it is "
            "unclear what a step is. Name a file whose build() returns a Training."
        )

    def no_period(self, updates: int) -> BadRequestError:
        """Return the error that there are no steps: the updates do not repeat."""
        if updates == 1:
            return BadRequestError(
                f"it makes a single update ({type(self.optimizers[0]).__name__}) and ends, so no step is made twice, "
                "and there is nothing to compare. Give it more epochs if it takes them: `-- --epochs 3`."
            )
        return BadRequestError(
            f"the order in which its {len(self.optimizers)} optimizers make updates does not repeat within {updates} "
            "updates, so it is unclear what a step is. Name a file whose build() returns a Training."
        )


def growth_of(seconds: Sequence[float]) -> float:
    """Return by what factor steps have become longer, their last quarter over their first; 1 where they do not grow.

    They grow if nearly all of them stand in the order of their lengths (Spearman's correlation of at least 0.8), which
    those of a busy machine do not.

    Args:
        seconds: Of steps that follow one another.
    """
    quarter = len(seconds) // 4
    if quarter < 3:
        return 1.0
    by_length = sorted(range(len(seconds)), key=seconds.__getitem__)
    order = statistics.correlation(by_length, range(len(seconds)))
    grown = statistics.median(seconds[-quarter:]) / statistics.median(seconds[:quarter])
    return grown if order >= _IN_ORDER and grown >= _GROWN else 1.0
