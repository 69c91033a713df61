"""KnowledgeGradient: what saves the most time for the time that it costs to try, and when nothing pays any more."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterator, Sequence
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from autoaccel.records.settings import Settings, changed, settings_key
from autoaccel.search.knowledge import READING_DEVIATION, Knowledge, Ranked
from autoaccel.search.proposals import Proposals
from autoaccel.search.surrogate import Vector
from autoaccel.search.task import SearchTask
from autoaccel.space.knobs import slow_starting_knobs

MAX_READINGS = 4
"""Of the same settings: then their processes' luck is half of what the proof takes for a difference."""

_MAX_WEIGHED = 4096  # settings that are weighed against each other; of a larger space those near the best, and
_MAX_PROPOSED = 64  # that Optuna proposes
_LIKELY = 0.5  # chance to work from which on a candidate comes before what is weighed
_MIN_SHARE = 1e-4  # of a run: a trial that is expected to save less is not worth even an idle machine's time

_HOPED_DRAW = -1  # the largest

_DRAWS = np.array([NormalDist().inv_cdf((number + 0.5) / 25) for number in range(25)])
"""Equally likely values of a normal distribution."""

NoTrial = Literal["nothing pays", "out of time", "everything tried"]
"""Why nothing is to be measured next."""


class Proofs(NamedTuple):
    """What it takes to prove what a search finds, which must be saved as well: a trial alone saves nothing."""

    seconds: Callable[[Settings, float], float] = lambda _, __: 0.0
    """That a proof is expected to take of settings with this log speed-up, as little takes many pairs; 0 for what is
    proven."""
    least_log: Callable[[Settings], float] = lambda _: 0.0  # the least log speed-up that can be proven of them
    chance: Callable[[Settings], float] = lambda _: 1.0  # that what shows whether the metric is kept decides


FREE = Proofs()


class Suggestion(NamedTuple):
    """Settings to measure next."""

    settings: Settings
    again: bool  # they were measured before; it is not clear enough whether they are the best
    gain_seconds: float  # expected to be saved over all runs by what this will show, after its proof
    cost_seconds: float  # expected to be spent on it
    hoped_seconds: float = 0.0  # the same as the gain, should they turn out as fast as can be hoped


class SuggestionBounds(NamedTuple):
    """What bounds the choice of the next trial."""

    room: Callable[[Settings], float] = lambda _: math.inf  # how many seconds a trial of some settings may cost at most
    busy: Container[str] = ()  # keys of settings that are not suggested: others measure them
    orphans: Sequence[Settings] = ()  # what others began to measure, because it would pay, and did not finish
    proofs: Proofs = FREE


class KnowledgeGradient:
    """Suggests settings as long as that pays: the rule by which a search ends, and what its sampler goes by.

    It suggests the settings with the largest knowledge gradient (Frazier, Powell and Dayanik, INFORMS Journal on
    Computing 2009) over a `Surrogate` for each second that a trial is expected to cost. A small space is weighed as a
    whole, of a larger one what lies near the best and what Optuna's TPE proposes. The experts' candidates come first.
    """

    def __init__(self, task: SearchTask, knowledge: Knowledge) -> None:
        """Begin with nothing suggested.

        Args:
            task: What is searched.
            knowledge: Learns from all trials.
        """
        self._space = task.space
        self._baseline = task.baseline
        self._economy = task.economy
        self.knowledge = knowledge
        self._candidates = list(task.prior.candidates)
        self._proposals = Proposals(task.space, task.seed)
        self.latest: Suggestion | None = None
        """What was suggested last."""

    def suggest(self, bounds: SuggestionBounds | None = None) -> Suggestion | NoTrial:
        """Return what to measure next, or why nothing is: no trial that fits into the time saves more than it costs.

        "out of time" if one would that does not fit.
        """
        bounds = bounds or SuggestionBounds()
        found = self._orphan(bounds) or self._candidate(bounds) or self._best(bounds)
        self.latest = found if isinstance(found, Suggestion) else None
        return found

    def why_not(self, settings: Settings, bounds: SuggestionBounds) -> str | None:
        """Return why somebody else's proposal is not measured; None if it may be."""
        if settings == self._baseline:
            return "it is the baseline"
        if settings_key(settings) in bounds.busy:
            return "another worker is measuring it"
        readings = self.knowledge.readings_of(settings)
        if readings >= MAX_READINGS:
            return f"it was measured {readings} times"
        if not readings and not self.knowledge.is_new(settings):
            return "it is forbidden, has failed, or contains what was ruled out"
        if self.knowledge.cost_seconds(settings) > bounds.room(settings):
            return "there is no time to try and prove it"
        return None

    def _orphan(self, bounds: SuggestionBounds) -> Suggestion | None:
        """Return what others left behind."""
        for orphan in bounds.orphans:
            if self.knowledge.is_new(orphan):
                (weighed,) = self._weigh([orphan], bounds.proofs)
                if weighed.cost_seconds <= bounds.room(orphan):
                    return weighed
        return None

    def _candidate(self, bounds: SuggestionBounds) -> Suggestion | None:
        """Return the next of the experts' candidates that pays."""
        doubtful: list[Settings] = []
        found = None
        while self._candidates and found is None:
            candidate = self._candidates.pop(0)
            if not self.knowledge.is_new(candidate) or settings_key(candidate) in bounds.busy:
                continue
            if self.knowledge.chance(candidate) < _LIKELY:
                doubtful.append(candidate)  # until it is known what made others fail
                continue
            (weighed,) = self._weigh([candidate], bounds.proofs)
            # The first guess that works and need not compile is tried: until then it is not known what a trial takes
            # here, and on a busy machine the baseline's start makes it look dear. Not where it could never repay that.
            first = not self.knowledge.has_measured and not slow_starting_knobs(candidate)
            first = first and weighed.hoped_seconds > weighed.cost_seconds
            tried = self._is_forced or first or self._pays(weighed)
            if tried and weighed.cost_seconds <= bounds.room(candidate):
                found = weighed
        self._candidates = [*doubtful, *self._candidates]
        return found

    @property
    def _is_forced(self) -> bool:
        """Whether something is tried however little it promises: what a person has set, once."""
        return not self.knowledge.has_tried and bool(changed(self._space.fixed, self._baseline))

    def _best(self, bounds: SuggestionBounds) -> Suggestion | NoTrial:
        """Return what pays most of all that may be tried, or measured once more."""
        best = [ranked.settings for ranked in self.knowledge.ranked()[:3]]
        again = [settings for settings in best if self.knowledge.readings_of(settings) < MAX_READINGS]
        options = [*self._untried(), *self._candidates, *again]
        free = [option for option in options if settings_key(option) not in bounds.busy]
        weighed_all = self._weigh(free, bounds.proofs)
        paying = weighed_all if self._is_forced else [weighed for weighed in weighed_all if self._pays(weighed)]
        affordable = [weighed for weighed in paying if weighed.cost_seconds <= bounds.room(weighed.settings)]
        if affordable:
            return max(affordable, key=lambda weighed: weighed.gain_seconds / weighed.cost_seconds)
        if paying:
            return "out of time"
        return "nothing pays" if self._untried() else "everything tried"

    def _pays(self, weighed: Suggestion) -> bool:
        """Whether it saves more time than it costs, and enough of each run to be noticed at all."""
        noticed = _MIN_SHARE * self._economy.trainings * self._economy.baseline_total_seconds
        return weighed.gain_seconds > max(weighed.cost_seconds, noticed)

    def _weigh(self, options: Sequence[Settings], proofs: Proofs) -> list[Suggestion]:
        """Return for each option what measuring it is expected to save, beside its proof, and to cost."""
        if not options:
            return []
        economy, knowledge = self._economy, self.knowledge
        mean, deviation = knowledge.predict(options)
        # By how much one more reading is expected to move what is believed of the option.
        moves = deviation**2 / np.hypot(deviation, READING_DEVIATION)
        compile_seconds = np.array([knowledge.average_start(one) for one in options])
        logs = mean[:, None] + moves[:, None] * _DRAWS[None, :]  # (options, draws)
        totals: Vector = economy.total_seconds(logs, compile_seconds[:, None])
        decided = np.array([proofs.chance(one) for one in options])[:, None]
        least_logs = np.array([proofs.least_log(one) for one in options])[:, None]
        provable = logs > least_logs
        # Of those in the mean; 0 where there are none.
        typical = (logs * provable).sum(axis=1) / np.maximum(provable.sum(axis=1), 1)
        proof_seconds = np.array([proofs.seconds(*one) for one in zip(options, typical.tolist(), strict=True)])
        hoped = economy.trainings * (economy.baseline_total_seconds - totals)
        saved = np.where(provable, decided * hoped - proof_seconds[:, None], 0.0)
        # As long as nothing measured is worth its proof, the baseline is what is held.
        ranked = sorted(
            ((self._worth(one, proofs), one.settings) for one in knowledge.ranked()[:2]), key=lambda one: -one[0]
        )
        held = [settings for worth, settings in ranked[:1] if worth > 0]
        best, second = (max(0.0, *(worth for worth, _ in ranked[number : number + 1]), 0.0) for number in (0, 1))
        # Where a proof decides nothing, what is held is left, and only that proof was in vain.
        more = np.where(provable, decided * (hoped - best) - proof_seconds[:, None], 0.0)
        gains = np.maximum(more, 0.0)
        weighed: list[Suggestion] = []
        for option, gain, worths in zip(options, gains, saved, strict=True):
            again = knowledge.readings_of(option) > 0
            # Of what is held, turning to the second best is what is gained, should the best disappoint.
            gained = np.maximum(second - worths, 0.0) if again and option in held else gain
            chance = 1.0 if again else knowledge.chance(option)
            expected, most = chance * float(gained.mean()), chance * float(gained[_HOPED_DRAW])
            weighed.append(Suggestion(option, again, expected, knowledge.cost_seconds(option), most))
        return weighed

    def _worth(self, one: Ranked, proofs: Proofs) -> float:
        """Return what is expected to be saved over all runs with what was measured, after its proof; 0 at least."""
        saved = self._economy.saved_seconds(one.total_seconds)
        saved = proofs.chance(one.settings) * saved - proofs.seconds(one.settings, one.log_speedup)
        return max(0.0, saved) if one.log_speedup > proofs.least_log(one.settings) else 0.0

    def _untried(self) -> list[Settings]:
        if self._space.size <= _MAX_WEIGHED:
            everything = list(self._all_settings())
        else:
            ranked = self.knowledge.ranked()[:3]
            near = [entry.settings for entry in ranked] or [{**self._baseline, **self._space.fixed}]
            values_of = self._space.open
            one_off = [{**one, name: value} for one in near for name in values_of for value in values_of[name]]
            everything = [*one_off, *self._proposals.draw(_MAX_PROPOSED, self.knowledge.reached)]
        settled = {settings_key(settings): settings for settings in map(self._space.settle, everything)}
        return [settings for settings in settled.values() if self.knowledge.is_new(settings)]

    def _all_settings(self) -> Iterator[Settings]:
        for values in itertools.product(*self._space.open.values()):
            yield {**self._space.fixed, **dict(zip(self._space.open, values, strict=True))}
