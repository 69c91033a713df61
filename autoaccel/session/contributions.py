"""What each setting of the recipe contributes: the recipe against itself without that setting, in fresh pairs."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple, Protocol

from autoaccel.records.recipe import Contribution, Interaction
from autoaccel.records.settings import Settings, changed
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Comparison, Failure
from autoaccel.search.strategy import Evidence
from autoaccel.session.proof import PairSource
from autoaccel.session.searching import Timer
from autoaccel.space.knobs import without
from autoaccel.statistics.comparison import CONFIDENCE, log_ratios, middle
from autoaccel.statistics.runs import CompileSeconds
from autoaccel.statistics.student import t_quantile

LEAST_ROUNDS, MOST_ROUNDS = 3, 5  # pairs for each setting
_BUDGET_SHARE = 0.2
"""Of the budget may go into this at most: it makes nothing faster, it only explains."""

_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


class Breakdown(NamedTuple):
    """What the settings contribute, and which two depend on each other if the product is not the whole."""

    contributions: tuple[Contribution, ...] = ()
    interaction: Interaction | None = None


class Believer(Protocol):
    """What believes something of settings that were not measured: the `Search`."""

    def contrast(
        self, settings: Sequence[Settings], weights: Sequence[float], evidence: Sequence[Evidence] = ()
    ) -> tuple[float, float]: ...

    def compile_seconds(self, settings: Settings) -> CompileSeconds: ...


class _Log(NamedTuple):
    """The logarithm of a speed-up, its standard deviation, and the half width of its interval."""

    mean: float
    deviation: float
    radius: float


def break_down(
    chosen: Settings,
    own: Settings,
    space: SearchSpace,
    whole: Comparison,
    pairs: PairSource,
    believer: Believer,
    clock: Timer,
    budget_seconds: float,
    pair_seconds: float,
) -> Breakdown:
    """Return what each changed setting contributes; nothing where fewer than two changed.

    As many settings as time allows are measured, those of which least is known first, one pair of each in every round
    so that a drift of the machine meets all; what the others contribute is what all trials let expect.

    Args:
        chosen: The recipe's settings.
        own: The user's.
        space: That was searched.
        whole: The proven speed-up of the recipe.
        pairs: Measures settings against the recipe.
        believer: Knows the trials.
        clock: Knows the budget.
        budget_seconds: Of the run.
        pair_seconds: What a pair takes that compiles nothing.
    """
    names = list(changed(chosen, own))
    if len(names) < 2:
        return Breakdown()
    without_it = {name: without([name], chosen, own) for name in names}
    proven = Evidence(chosen, math.log(whole.speedup), math.log(whole.high / whole.low) / 2 / _Z)

    def doubt(name: str) -> float:
        return believer.contrast([chosen, without_it[name]], [1, -1], [proven])[1]

    candidates = sorted((name for name in names if space.allows(without_it[name])), key=doubt, reverse=True)
    end = clock.spent + min(clock.left, _BUDGET_SHARE * budget_seconds)
    costs = {name: pair_seconds + believer.compile_seconds(without_it[name]).cold for name in candidates}
    readings = _read(_affordable(candidates, costs, end - clock.spent), without_it, costs, pairs, clock, end)
    logs = _summed_up(readings)
    measured = set(logs)
    evidence = [proven]
    for name, log in logs.items():
        evidence.append(Evidence(without_it[name], proven.log_speedup - log.mean, log.deviation))
    for name in names:
        if name not in measured:
            mean, deviation = believer.contrast([chosen, without_it[name]], [1, -1], evidence)
            logs[name] = _Log(mean, deviation, _Z * deviation)
    agrees = _agrees(logs.values(), proven)
    return Breakdown(
        contributions=_contributions(logs, chosen, measured),
        interaction=None if agrees else _strongest(names, chosen, own, believer, evidence),
    )


def _contributions(logs: Mapping[str, _Log], chosen: Settings, measured: Collection[str]) -> tuple[Contribution, ...]:
    """Return what each setting contributes, the most first."""
    found = [
        Contribution(
            setting=name,
            value=chosen[name],
            speedup=math.exp(log.mean),
            low=math.exp(log.mean - log.radius),
            high=math.exp(log.mean + log.radius),
            measured=name in measured,
        )
        for name, log in logs.items()
    ]
    return tuple(sorted(found, key=lambda one: -one.speedup))


def _affordable(candidates: Sequence[str], costs: Mapping[str, float], seconds: float) -> list[str]:
    """Return the first candidates that can all be measured in this time as often as it takes to tell."""
    total, found = 0.0, []
    for name in candidates:
        total += LEAST_ROUNDS * costs[name]
        if total <= seconds:
            found.append(name)
    return found


def _read(
    names: Sequence[str],
    without_it: Mapping[str, Settings],
    costs: Mapping[str, float],
    pairs: PairSource,
    clock: Timer,
    end: float,
) -> dict[str, list[float]]:
    """Return the log speed-ups of the recipe over itself without each setting, one of each pair that was undisturbed.

    Args:
        names: Of the settings.
        without_it: The recipe without each.
        costs: Seconds that a pair of each is expected to take.
        pairs: Measures.
        clock: Knows the time.
        end: When to stop, in seconds since the start of the run.
    """
    found: dict[str, list[float]] = {name: [] for name in names}
    failed: set[str] = set()
    for number in range(MOST_ROUNDS):
        # Who comes first changes, so that a drift of the machine favours none.
        for name in names if number % 2 == 0 else reversed(names):
            if name in failed or clock.spent + costs[name] > end:
                continue
            reading = pairs.measure(without_it[name], number, None)
            if isinstance(reading, Failure):
                failed.add(name)
            elif reading.trusted:
                found[name].append(-middle(log_ratios(reading.turns)))
    return found


def _summed_up(readings: Mapping[str, Sequence[float]]) -> dict[str, _Log]:
    """Return the mean of each setting's readings, where there are two or more; its interval is Student's.

    Few pairs tell little of their own spread, but one machine's processes scatter alike whatever they compare: the
    deviation is that of all settings' readings around their own means.
    """
    enough = {name: logs for name, logs in readings.items() if len(logs) >= 2}
    degrees = sum(len(logs) - 1 for logs in enough.values())
    if degrees < LEAST_ROUNDS - 1:
        return {}
    squares = sum((len(logs) - 1) * statistics.variance(logs) for logs in enough.values())
    spread, quantile = math.sqrt(squares / degrees), t_quantile((1 + CONFIDENCE) / 2, degrees)
    return {
        name: _Log(statistics.fmean(logs), deviation := spread / math.sqrt(len(logs)), quantile * deviation)
        for name, logs in enough.items()
    }


def _agrees(logs: Collection[_Log], whole: Evidence) -> bool:
    """Whether the product of the contributions is the whole, as far as the intervals of both can tell."""
    radius = math.hypot(_Z * whole.deviation, *(log.radius for log in logs))
    return abs(sum(log.mean for log in logs) - whole.log_speedup) <= radius


def _strongest(
    names: Sequence[str],
    chosen: Settings,
    own: Settings,
    believer: Believer,
    evidence: Sequence[Evidence],
) -> Interaction:
    """Return the two settings whose joint effect departs most from the product of what each does alone."""
    found = []
    for one, other in itertools.combinations(names, 2):
        kept_back: list[tuple[str, ...]] = [(), (one,), (other,), (one, other)]
        settings = [without(left, chosen, own) for left in kept_back]
        mean, deviation = believer.contrast(settings, [1, -1, -1, 1], evidence)
        found.append(((one, other), mean, deviation))
    pair, mean, deviation = max(found, key=lambda entry: abs(entry[1]))
    return Interaction(
        settings=pair,
        factor=math.exp(mean),
        low=math.exp(mean - _Z * deviation),
        high=math.exp(mean + _Z * deviation),
    )
