"""What each setting of the recipe contributes: the recipe against itself without that setting, in fresh pairs."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple, Protocol

from autoaccel.bench.bench import Compare, FreshPair, Reference
from autoaccel.proof.limits import MAX_PAIRS_EACH, MIN_PAIRS_EACH
from autoaccel.records.messages import Failure
from autoaccel.records.recipe import Contribution, Interaction
from autoaccel.records.settings import Settings, Value
from autoaccel.records.trial import Comparison
from autoaccel.runs.limits import CONTRIBUTIONS_SHARE
from autoaccel.search.instruments import Clock
from autoaccel.search.knowledge import KnownSpeedup
from autoaccel.space.change import Change
from autoaccel.statistics.comparison import CONFIDENCE, turns_log
from autoaccel.statistics.runs import CompileSeconds
from autoaccel.statistics.student import t_quantile

_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


class Breakdown(NamedTuple):
    """What the settings contribute, and which two depend on each other if the product is not the whole."""

    contributions: tuple[Contribution, ...] = ()
    interaction: Interaction | None = None

    @property
    def harmful(self) -> list[Contribution]:
        """What was measured to make the recipe slower, if perhaps by chance: what wins nothing is better left out."""
        return [one for one in self.contributions if one.measured and one.speedup < 1]


class Predictor(Protocol):
    """What predicts the speed of settings that were not measured: the `Knowledge` of a search."""

    def contrast(
        self, settings: Sequence[Settings], weights: Sequence[float], known: Sequence[KnownSpeedup] = ()
    ) -> tuple[float, float]: ...

    def compile_seconds(self, settings: Settings) -> CompileSeconds: ...

    def extra_start_seconds(self, settings: Settings) -> float: ...


class _Log(NamedTuple):
    """The logarithm of a speed-up, its standard deviation, and the half width of its interval."""

    mean: float
    deviation: float
    radius: float

    def contribution(self, name: str, value: Value, measured: bool) -> Contribution:
        """Return it as what a setting contributes."""
        low, high = math.exp(self.mean - self.radius), math.exp(self.mean + self.radius)
        return Contribution(name, value, math.exp(self.mean), low, high, measured)


class Proven(NamedTuple):
    """A change that was proven."""

    change: Change
    whole: Comparison  # the proven speed-up
    step_seconds: float  # of the recipe

    @property
    def known(self) -> KnownSpeedup:
        """The proven speed-up, as a predictor takes it."""
        whole = self.whole
        return KnownSpeedup(self.change.settings, math.log(whole.speedup), math.log(whole.high / whole.low) / 2 / _Z)

    @property
    def reference(self) -> Reference:
        """The recipe, as what the same without a setting is compared with."""
        return Reference(self.change.settings, self.step_seconds)

    def without(self, *names: str) -> Settings:
        """Return the recipe without some of its settings."""
        return self.change.without(*names).settings

    def predicted(self, name: str, predictor: Predictor, known: Sequence[KnownSpeedup]) -> tuple[float, float]:
        """Return the logarithm of what a setting is predicted to contribute, and its standard deviation."""
        return predictor.contrast([self.change.settings, self.without(name)], [1, -1], known)


class TimeLeft(NamedTuple):
    """What there is to spend, and what measuring takes."""

    clock: Clock
    budget_seconds: float  # of the run
    pair_seconds: Callable[[float], float]
    """Returns what a pair takes that compiles nothing, given how many times as fast as the recipe its other side is."""
    until: float = math.inf
    """When measuring must be over, by the clock: it may take no more than a part of what the recipe saves."""

    @property
    def left(self) -> float:
        """What there is at most."""
        return min(self.clock.left, max(0.0, self.until - self.clock.spent))

    @property
    def most_seconds(self) -> float:
        """What measuring contributions may take from now on, if pairs take what is expected."""
        return min(self.left, CONTRIBUTIONS_SHARE * self.budget_seconds)


class _Left(NamedTuple):
    """The recipe without a setting."""

    name: str  # of the setting
    settings: Settings
    seconds: float  # that a pair of it is expected to take,
    cold_seconds: float  # and its first one more, if something is compiled that was not compiled before

    @classmethod
    def of(cls, name: str, log_contribution: float, recipe: Proven, predictor: Predictor, time: TimeLeft) -> _Left:
        """Return the recipe without a setting of this name, and what pairs of it take.

        The recipe was compiled for its proof; what is left of it without the setting is compiled for its first pair.
        """
        settings = recipe.without(name)
        compiling = predictor.compile_seconds(settings)
        loading_seconds = predictor.extra_start_seconds(recipe.change.settings)
        loading_seconds += predictor.extra_start_seconds(settings)
        pair_seconds = time.pair_seconds(math.exp(-log_contribution))
        return cls(name, settings, pair_seconds + loading_seconds, compiling.cold - compiling.warm)

    @property
    def least_seconds(self) -> float:
        """What as many pairs take as tell anything."""
        return self.cold_seconds + MIN_PAIRS_EACH * self.seconds


def break_down(recipe: Proven, compare: Compare, predictor: Predictor, time: TimeLeft) -> Breakdown:
    """Return what each changed setting contributes; nothing where fewer than two changed.

    As many settings as time allows are measured, the least known first; one that takes too long leaves its time to
    others. Each round measures one pair of every setting, so that a drift of the machine meets all. What the others
    contribute is predicted from all trials.

    Args:
        recipe: That was proven.
        compare: Measures a pair of processes.
        predictor: Knows the trials.
        time: That there is.
    """
    if len(recipe.change.names) < 2:
        return Breakdown()
    logs = _summed_up(_read(_to_measure(recipe, predictor, time), recipe.reference, compare, time))
    measured = set(logs)
    known = [recipe.known]
    for name, log in logs.items():
        known.append(KnownSpeedup(recipe.without(name), recipe.known.log_speedup - log.mean, log.deviation))
    for name in recipe.change.names:
        if name not in measured:
            mean, deviation = recipe.predicted(name, predictor, known)
            logs[name] = _Log(mean, deviation, _Z * deviation)
    settings = recipe.change.settings
    found = [log.contribution(name, settings[name], name in measured) for name, log in logs.items()]
    # As far as the intervals of both can tell.
    radius = math.hypot(_Z * recipe.known.deviation, *(log.radius for log in logs.values()))
    product_is_whole = abs(sum(log.mean for log in logs.values()) - recipe.known.log_speedup) <= radius
    return Breakdown(
        contributions=tuple(sorted(found, key=lambda one: -one.speedup)),
        interaction=None if product_is_whole else _strongest(recipe, predictor, known),
    )


def expected_seconds(recipe: Proven, predictor: Predictor, time: TimeLeft) -> float:
    """Return what measuring contributions is expected to take; see `break_down`."""
    measured = _to_measure(recipe, predictor, time)
    if not measured:
        return 0.0
    within_share = min(time.most_seconds, sum(one.cold_seconds + MAX_PAIRS_EACH * one.seconds for one in measured))
    return max(measured[0].least_seconds, within_share)


def _to_measure(recipe: Proven, predictor: Predictor, time: TimeLeft) -> list[_Left]:
    """Return the recipe without each setting whose contribution there is time to measure, the least known first.

    All of these can be measured as often as it takes to tell. If there is no time for any, one may have what is left of
    the budget: else nothing is told where steps take seconds.
    """
    possible = [name for name in recipe.change.names if recipe.change.space.allows(recipe.without(name))]
    predicted = {name: recipe.predicted(name, predictor, [recipe.known]) for name in possible}
    least_known = sorted(possible, key=lambda name: predicted[name][1], reverse=True)
    left = [_Left.of(name, predicted[name][0], recipe, predictor, time) for name in least_known]
    found, seconds = [], time.most_seconds
    for one in left:
        if one.least_seconds <= seconds:
            seconds -= one.least_seconds
            found.append(one)
    return found or [one for one in left if one.least_seconds <= time.left][:1]


def _read(candidates: Sequence[_Left], recipe: Reference, compare: Compare, time: TimeLeft) -> dict[str, list[float]]:
    """Return the log speed-ups of the recipe over itself without each setting, one of each pair that was undisturbed.

    Where pairs take longer than expected, the last candidates are given up for the sake of the first, as a single pair
    of each would tell nothing. The first has all that is left of the budget: its pairs would be made in vain, too.

    Args:
        candidates: The recipe without each, the first preferred.
        recipe: That they are compared with.
        compare: Measures a pair.
        time: That there is.
    """
    clock = time.clock
    end, budget_end = clock.spent + time.most_seconds, clock.spent + time.left
    found: dict[str, list[float]] = {one.name: [] for one in candidates}
    working = list(candidates)
    expected_seconds, spent_seconds = 0.0, 0.0
    for number in range(MAX_PAIRS_EACH):
        # The order changes, so that a drift of the machine favours none.
        for one in list(working if number % 2 == 0 else reversed(working)):
            slower = spent_seconds / expected_seconds if expected_seconds else 1.0
            is_first_untold = one is candidates[0] and len(found[one.name]) < MIN_PAIRS_EACH
            until = budget_end if is_first_untold else end
            if clock.spent + slower * _seconds_until_told(one, working, found, number) > until:
                continue
            began = clock.spent
            reading = compare(one.settings, FreshPair(number, against=recipe))
            expected_seconds += one.seconds + (one.cold_seconds if number == 0 else 0.0)
            spent_seconds += clock.spent - began
            if isinstance(reading, Failure):
                working.remove(one)
            elif reading.trusted and not reading.trend:
                found[one.name].append(-turns_log(reading.pairs))
    return found


def _seconds_until_told(
    one: _Left, candidates: Sequence[_Left], found: Mapping[str, Sequence[float]], number: int
) -> float:
    """Return what it is expected to take until there are enough pairs of a candidate and of all that come before it.

    At least its next pair.

    Args:
        one: The candidate.
        candidates: All, the first preferred.
        found: The readings of each.
        number: Of the round, from 0: in the first, something may have to be compiled.
    """
    seconds = 0.0
    for other in candidates[: candidates.index(one) + 1]:
        count = max(MIN_PAIRS_EACH - len(found[other.name]), 1 if other is one else 0)
        cold_seconds = other.cold_seconds if number == 0 and not found[other.name] else 0.0
        seconds += count * other.seconds + cold_seconds
    return seconds


def _summed_up(readings: Mapping[str, Sequence[float]]) -> dict[str, _Log]:
    """Return the mean of each setting's readings, where there are two or more; its interval is Student's.

    Few pairs tell little of their own spread, but one machine's processes scatter alike whatever they compare: the
    deviation is that of all settings' readings around their own means.
    """
    enough = {name: logs for name, logs in readings.items() if len(logs) >= 2}
    degrees = sum(len(logs) - 1 for logs in enough.values())
    if degrees < MIN_PAIRS_EACH - 1:
        return {}
    squares = sum((len(logs) - 1) * statistics.variance(logs) for logs in enough.values())
    spread, quantile = math.sqrt(squares / degrees), t_quantile((1 + CONFIDENCE) / 2, degrees)
    return {
        name: _Log(statistics.fmean(logs), deviation := spread / math.sqrt(len(logs)), quantile * deviation)
        for name, logs in enough.items()
    }


def _strongest(recipe: Proven, predictor: Predictor, known: Sequence[KnownSpeedup]) -> Interaction:
    """Return the two settings whose joint effect departs most from the product of what each does alone."""
    found = []
    for one, other in itertools.combinations(recipe.change.names, 2):
        settings = [
            recipe.change.settings,
            recipe.without(one),
            recipe.without(other),
            recipe.without(one, other),
        ]
        mean, deviation = predictor.contrast(settings, [1, -1, -1, 1], known)
        found.append(((one, other), mean, deviation))
    pair, mean, deviation = max(found, key=lambda entry: abs(entry[1]))
    return Interaction(
        settings=pair,
        factor=math.exp(mean),
        low=math.exp(mean - _Z * deviation),
        high=math.exp(mean + _Z * deviation),
    )
