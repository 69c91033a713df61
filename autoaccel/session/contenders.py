"""Which trials may win: those that shorten the run and are known to keep the metric."""

from __future__ import annotations

from collections.abc import Sequence

from autoaccel.records.settings import Settings
from autoaccel.records.trial import Trial
from autoaccel.space.knobs import is_exact

_MOST_FINALISTS = 3
_CLOSE = 1.05  # finalists' runs are at most this much longer than the best by the search


def contenders(trials: Sequence[Trial], baseline: Settings, baseline_total_seconds: float) -> list[Trial]:
    """Return the trials whose run is projected shorter than the baseline's, the shortest first.

    Settings that may change the numbers are among them only if their metric was measured and holds.
    """
    found = [
        (trial.total_seconds, trial.number, trial)
        for trial in trials
        if trial.total_seconds is not None and trial.total_seconds < baseline_total_seconds
        if trial.feasible and (trial.accuracy is not None or is_exact(trial.settings, baseline))
    ]
    return [trial for _, _, trial in sorted(found, key=lambda entry: entry[:2])]


def finalists(trials: Sequence[Trial], baseline: Settings, worthwhile_seconds: float) -> list[Trial]:
    """Return the best contenders below this run time, as many as are close to the very best."""
    able = contenders(trials, baseline, worthwhile_seconds)
    return [
        trial
        for trial in able[:_MOST_FINALISTS]
        if trial.total_seconds is not None and trial.total_seconds <= _CLOSE * (able[0].total_seconds or 0.0)
    ]
