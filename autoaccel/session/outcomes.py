"""What became of each value of the search space: why the recipe does not have it, or why it was not tried."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from autoaccel.records.recipe import ValueResult
from autoaccel.records.settings import Settings, Value
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Failure, Trial
from autoaccel.search.failures import causes_of, contains, part_words
from autoaccel.session.searching import NOTHING_PAYS, OUT_OF_TIME
from autoaccel.statistics.comparison import NOISE_THRESHOLD

_UNTRIED = {
    NOTHING_PAYS: "cannot repay its cost: what it might save is less than what a trial of it takes",
    OUT_OF_TIME: "out of budget: the time that was left did not suffice to try and to prove it",
}


def value_results(
    space: SearchSpace, own: Settings, chosen: Settings, trials: Sequence[Trial], ended: str
) -> tuple[ValueResult, ...]:
    """Return what became of every open value that is neither chosen nor the user's own.

    Args:
        space: What could be tried.
        own: The user's settings.
        chosen: The recipe's.
        trials: All that were made.
        ended: Why the search ended.
    """
    left = [
        (name, value)
        for name, values in space.open.items()
        for value in values
        if value not in (own.get(name), chosen.get(name))
    ]
    return tuple(_result(name, value, own, chosen, trials, ended) for name, value in left)


def _result(
    name: str, value: Value, own: Settings, chosen: Settings, trials: Sequence[Trial], ended: str
) -> ValueResult:
    tried = [trial for trial in trials if trial.settings.get(name) == value]
    compared = [trial for trial in tried if trial.comparison is not None]
    if not compared and (reason := _closed_because(name, value, own, trials)):
        return ValueResult(name, value, len(tried), None, reason)
    if not tried:
        return ValueResult(name, value, 0, None, _UNTRIED.get(ended, ended))
    failures = [trial.outcome for trial in tried if isinstance(trial.outcome, Failure)]
    if not compared:
        reason = f"failed: {failures[-1].message}" if failures else "could not be compared"
        return ValueResult(name, value, len(tried), None, reason)
    feasible = [trial for trial in compared if trial.feasible]
    best = min(feasible or compared, key=lambda trial: trial.total_seconds or 0.0)
    assert best.comparison is not None  # that is what `compared` says
    reason = _why_not(best, own, chosen, trials) if feasible else _why_infeasible(tried)
    return ValueResult(name, value, len(tried), best.comparison.speedup, reason)


def _why_infeasible(tried: Sequence[Trial]) -> str:
    """Return why none of the trials with a value could become the recipe, though they were compared."""
    for trial in reversed(tried):
        if trial.again and isinstance(trial.outcome, Failure):
            return f"failed in its proof: {trial.outcome.message}"
    return "the metric may drop further than is allowed"


def _closed_because(name: str, value: Value, own: Settings, trials: Sequence[Trial]) -> str:
    """Return why failures have closed a value, or nothing if they have not."""
    for cause in causes_of(trials, own):
        if cause.closed and contains({name: value}, cause.closed):
            return f"{part_words(cause.closed)} was closed: {cause.reason}"
    return ""


def _why_not(best: Trial, own: Settings, chosen: Settings, trials: Sequence[Trial]) -> str:
    """Return why not even the best trial with a value made it into the recipe."""
    assert best.comparison is not None
    if best.comparison.verdict == "slower":
        return "slower than your own settings in every trial"
    if best.comparison.high < 1 + NOISE_THRESHOLD:
        return "not faster than your own settings in any trial"
    rounding = best.accuracy.rounding if best.accuracy else None
    if rounding is not None and rounding.verdict == "too large":
        return "it does more than round: only runs could show whether the metric is kept"
    winners = [trial for trial in trials if trial.settings == chosen and trial.comparison and trial.total_seconds]
    if chosen == own or not winners:
        return "not proven to make the run shorter"
    steps = statistics.median(trial.comparison.speedup for trial in winners if trial.comparison)
    total = statistics.median(trial.total_seconds for trial in winners if trial.total_seconds)
    if best.comparison.speedup > steps and (best.total_seconds or 0.0) > total:
        return "its steps are faster, but its slower start is not repaid"
    if best.comparison.high < steps:
        return "even its best trial is slower than the recipe"
    return "its best trial is not clearly better than the recipe"
