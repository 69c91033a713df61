"""What became of each value of the search space: why the recipe does not have it, or why it was not tried."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from autoaccel.records.conclusion import CommonCause, Lost, LostBecause
from autoaccel.records.messages import Failure
from autoaccel.records.settings import Settings, Value
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Trial
from autoaccel.search.failures import causes_of, contains
from autoaccel.statistics.comparison import NOISE_THRESHOLD


def lost_values(
    space: SearchSpace, baseline_settings: Settings, recipe_settings: Settings, trials: Sequence[Trial]
) -> tuple[Lost, ...]:
    """Return what became of every open value that is neither in the recipe nor the user's own.

    Args:
        space: What could be tried.
        baseline_settings: The user's settings.
        recipe_settings: The recipe's.
        trials: All that were made.
    """
    return tuple(
        _lost(name, value, [baseline_settings, recipe_settings], trials)
        for name, values in space.open.items()
        for value in values
        if value not in (baseline_settings.get(name), recipe_settings.get(name))
    )


def _lost(name: str, value: Value, both: Sequence[Settings], trials: Sequence[Trial]) -> Lost:
    """Return what became of one value; `both` are the user's own settings and the recipe's."""
    baseline_settings, recipe_settings = both
    tried = [trial for trial in trials if trial.settings.get(name) == value]
    compared = [trial for trial in tried if trial.comparison is not None]
    if not compared and (cause := _closed_by(name, value, baseline_settings, trials)):
        return Lost(name, value, len(tried), None, "closed", cause=cause)
    if not tried:
        return Lost(name, value, 0, None, "untried")
    failures = [trial.outcome for trial in tried if isinstance(trial.outcome, Failure)]
    if not compared and failures:
        return Lost(name, value, len(tried), None, "failed", failures[-1].message)
    if not compared:
        return Lost(name, value, len(tried), None, "not compared")
    feasible = [trial for trial in compared if trial.feasible]
    best = min(feasible or compared, key=lambda trial: trial.total_seconds or 0.0)
    assert best.comparison is not None  # that is what `compared` says
    speedup = best.comparison.speedup
    if feasible:
        return Lost(name, value, len(tried), speedup, _why_not(best, baseline_settings, recipe_settings, trials))
    for trial in reversed(tried):
        if trial.again and isinstance(trial.outcome, Failure):
            return Lost(name, value, len(tried), speedup, "failed in its proof", trial.outcome.message)
    return Lost(name, value, len(tried), speedup, "metric may drop")


def _closed_by(name: str, value: Value, baseline_settings: Settings, trials: Sequence[Trial]) -> CommonCause | None:
    """Return why failures have closed a value; None if they have not."""
    found = (cause.common for cause in causes_of(trials, baseline_settings))
    return next((common for common in found if common and contains({name: value}, common.part)), None)


def _why_not(
    best: Trial, baseline_settings: Settings, recipe_settings: Settings, trials: Sequence[Trial]
) -> LostBecause:
    """Return why not even the best trial with a value made it into the recipe."""
    assert best.comparison is not None
    if best.comparison.verdict == "slower":
        return "slower"
    if best.comparison.high < 1 + NOISE_THRESHOLD:
        return "not faster"
    rounding = best.accuracy.rounding if best.accuracy else None
    if rounding is not None and rounding.verdict == "too large":
        return "more than rounding"
    winners = [
        trial for trial in trials if trial.settings == recipe_settings and trial.comparison and trial.total_seconds
    ]
    if recipe_settings == baseline_settings or not winners:
        return "not proven"
    steps = statistics.median(trial.comparison.speedup for trial in winners if trial.comparison)
    total = statistics.median(trial.total_seconds for trial in winners if trial.total_seconds)
    if best.comparison.speedup > steps and (best.total_seconds or 0.0) > total:
        return "slow start"
    return "slower than the recipe" if best.comparison.high < steps else "no better than the recipe"
