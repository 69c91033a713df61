"""Looks at the first steps of a script that trains on, until they repeat and it is known who may load its samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import torch

from autoaccel.records.script import SeenLoader
from autoaccel.records.workload import TrainingFacts
from autoaccel.runtime.datasets import LoadingFacts
from autoaccel.runtime.script.feeding import Feeds, LoadedHere, Loading
from autoaccel.runtime.script.loading_look import LoadingLook, why_not_apart
from autoaccel.runtime.script.observe import Observer
from autoaccel.space.knobs.data import NEGLIGIBLE_LOADING

_PATIENCE_STEPS = 20  # until a batch is loaded; some scripts load all of them before they train


class LookedOn(NamedTuple):
    """What was seen of a script.

    Attributes:
        facts: Of its training.
        steps: That it has made.
        loading: What it takes to load the batches of a step; None where others than this process load them, or nobody.
    """

    facts: TrainingFacts
    steps: int
    loading: Loading | None


class LookingOn(Observer):
    """Looks at a script's first steps; it goes on as if nobody did."""

    def __init__(
        self, feeds: Feeds | None, seen: Callable[[LookedOn, LookingOn], None], failed: Callable[[BaseException], None]
    ) -> None:
        """Begin to look.

        Args:
            feeds: Hears of what is loaded; None where loaders stay as they are.
            seen: Called once, with what was seen, before the gradients of a later step are computed.
            failed: Called with an error of ours.
        """
        super().__init__(self._is_known, is_thrown_away=False)
        self._feeds = feeds
        self._tell_seen = seen
        self._facts: TrainingFacts | None = None
        self._loading: Loading | None = None
        self._look: LoadingLook | None = None
        self._waits = 0  # steps for which somebody still waits for a batch to look at
        self._steps = 0  # that were made
        self._last = 0  # the number of the optimizer whose update completes one
        self.attach(failed)

    def _is_known(self, facts: TrainingFacts) -> None:
        seen = facts.seen.must_be_script("its steps are heard as those of a script.")
        loader, self._steps, self._last = seen.loader, seen.steps_seen, seen.cycle[-1]
        why = self._look_at(loader, facts, self._feeds) if loader is not None and self._feeds is not None else ""
        self._facts = msgspec.structs.replace(facts, loading_matters="", loading_bound=why)

    def _look_at(self, loader: SeenLoader, facts: TrainingFacts, feeds: Feeds) -> str:
        """Begin to look at how samples are loaded; or return why nobody needs to."""
        if loader.fixed:
            return loader.fixed
        if loader.workers:
            return "its own workers load, whose number changes only where `autoaccel tune` starts it anew"
        loading = feeds.loading(loader.key)
        if loading is None:
            return "its batches do not come from an iterator of torch's own"
        batches = max(1, round((facts.batch_size or 0) / (loader.key.batch_size or 1)))
        self._loading = Loading(*(batches * each for each in loading))
        step_seconds = facts.seen.must_be_script("its steps are heard as those of a script.").step_seconds
        if self._loading.seconds < NEGLIGIBLE_LOADING * step_seconds:
            return f"loading takes {self._loading.seconds / step_seconds:.1%} of a step"
        self._waits = _PATIENCE_STEPS
        feeds.tell_next(loader.key, self._batch_loaded)
        return "no batch was loaded any more that could be looked at"

    def _batch_loaded(self, drawn: LoadedHere) -> None:
        self._waits = 0
        if self._facts is None:
            return
        if why := why_not_apart(drawn.loader):
            self._take(LoadingFacts(None, "", why_bound=why))
            return
        try:
            self._look = self._begin_to_look(drawn)
        except Exception as error:  # it must not reach the script, which waits for its batch
            self._take(LoadingFacts(None, "", why_bound=f"its samples could not be looked at ({type(error).__name__})"))

    def _begin_to_look(self, drawn: LoadedHere) -> LoadingLook:
        trained = {id(one) for each in self._seen.optimizers for group in each.param_groups for one in group["params"]}
        sources = itertools.chain.from_iterable(self._sources.values())
        return LoadingLook(drawn, [one for one in sources if one.are_of(drawn.loader)], trained)

    def _take(self, found: LoadingFacts) -> None:
        assert self._facts is not None  # it was known before anybody looked
        self._facts = msgspec.structs.replace(
            self._facts,
            loading_matters=found.why_loading_matters,
            loading_redraws=found.only_redraws,
            loading_bound=found.why_bound,
        )

    def update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """Look at it, unless all is known."""
        if self._facts is None:
            super().update_begins(optimizer)

    def update_ended(self, optimizer: torch.optim.Optimizer) -> None:
        """Look at what has happened since the last one, unless all is known."""
        if self._facts is None:
            super().update_ended(optimizer)
        else:
            self._waits = max(0, self._waits - 1)
            self._steps += self.numbers.of(optimizer) == self._last

    def backward_begins(self, loss: torch.Tensor) -> None:
        """Leave the script alone once all is known; not within an update, whose hooks are being gone through."""
        if self._facts is None:
            super().backward_begins(loss)
            return
        if self._look is not None and (found := self._look.found()) is not None:
            self._take(found)
            self._look = None
        if self._look is None and not self._waits:
            self.detach()
            self._tell_seen(LookedOn(self._facts, self._steps, self._loading), self)
