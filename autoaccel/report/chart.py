"""Where the marks of the search history lie: geometry only, the template draws it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autoaccel.records.messages import Failure
from autoaccel.records.trial import Trial
from autoaccel.report.wording import comparison_words, outcome_words

WIDTH = 720.0
HEIGHT = 260.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 14.0, 12.0, 46.0
_RIGHT_EDGE, _BOTTOM_EDGE = WIDTH - _RIGHT, HEIGHT - _BOTTOM
_FAILURES_Y = HEIGHT - 30.0  # under the scale: what failed has no speed-up
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 50.0, 100.0)
_TICK_DISTANCE = 18.0
_MAX_NUMBERS = 20
_ROOM = 1.06  # a factor above and below the marks


@dataclass(frozen=True)
class Mark:
    """One trial: its speed-up and interval, or a cross where it failed."""

    number: int
    kind: str  # "feasible", "best", "infeasible" or "failed"
    x: float
    y: float
    low_y: float
    high_y: float
    label: str


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Chart:
    """The speed-up of each trial, in pixels from the top left corner."""

    marks: tuple[Mark, ...]
    best_path: str  # SVG path of the best so far
    baseline_y: float
    left: float
    right: float
    bottom: float
    speedups: tuple[Tick, ...]
    numbers: tuple[Tick, ...]


def search_history(trials: Sequence[Trial], baseline_total_seconds: float) -> Chart | None:
    """Return the chart of the trials in their order, or None if none has a speed-up.

    The scale is logarithmic: twice as fast and half as fast are equally far from 1. The best is the feasible trial
    with the shortest whole run, which a long compilation can deny to the fastest step.
    """
    speedups = [trial.comparison.speedup for trial in trials if trial.comparison]
    if not speedups:
        return None
    axes = _HistoryAxes(*_range(trials, speedups), len(trials))
    leaders = _leaders(trials, baseline_total_seconds)
    every = math.ceil(len(trials) / _MAX_NUMBERS)
    return Chart(
        marks=tuple(_mark(trial, axes.x_of(index), leaders[-1], axes) for index, trial in enumerate(trials)),
        best_path=_best_path(leaders, axes),
        baseline_y=axes.y_of(1.0),
        left=_LEFT,
        right=_RIGHT_EDGE,
        bottom=_BOTTOM_EDGE,
        speedups=_ticks(axes),
        numbers=tuple(
            Tick(axes.x_of(index), str(trial.number)) for index, trial in enumerate(trials) if index % every == 0
        ),
    )


class _HistoryAxes(NamedTuple):
    """The speed-ups at the ends of the scale, the number of trials, and where each lies, in pixels."""

    low: float
    high: float
    trials: int

    def x_of(self, index: int) -> float:
        return round(_LEFT + (_RIGHT_EDGE - _LEFT) * (index + 0.5) / self.trials, 1)

    def y_of(self, speedup: float) -> float:
        share = math.log(min(max(speedup, self.low), self.high) / self.low) / math.log(self.high / self.low)
        return round(_BOTTOM_EDGE - share * (_BOTTOM_EDGE - _TOP), 1)


def _mark(trial: Trial, x: float, best: Trial | None, axes: _HistoryAxes) -> Mark:
    comparison = trial.comparison
    if isinstance(trial.outcome, Failure) or comparison is None:
        y = low_y = high_y = _FAILURES_Y
        kind, label = "failed", outcome_words(trial)
    else:
        y, low_y, high_y = axes.y_of(comparison.speedup), axes.y_of(comparison.low), axes.y_of(comparison.high)
        kind = "best" if trial is best else "feasible" if trial.feasible else "infeasible"
        label = f"{comparison_words(comparison)} {outcome_words(trial, best)}"
    return Mark(trial.number, kind, x, y, low_y, high_y, f"trial {trial.number}: {label}")


def _best_path(leaders: Sequence[Trial | None], axes: _HistoryAxes) -> str:
    """Return the path of the best so far: level until another leads."""
    last_y = axes.y_of(1.0)
    path = f"M{_LEFT:.1f} {last_y}"
    for index, leader in enumerate(leaders):
        y = axes.y_of(leader.comparison.speedup) if leader and leader.comparison else axes.y_of(1.0)
        if y != last_y:
            path += f"H{axes.x_of(index)}V{y}"
            last_y = y
    return f"{path}H{_RIGHT_EDGE}"


def _range(trials: Sequence[Trial], speedups: Sequence[float]) -> tuple[float, float]:
    """Return the scale's ends: all speed-ups and 1, and of the intervals as much as does not squeeze them."""
    low, high = min(1.0, *speedups), max(1.0, *speedups)
    room = max(high / low, 1.2) ** 0.5
    intervals = [trial.comparison for trial in trials if trial.comparison]
    lowest = max(min(comparison.low for comparison in intervals), low / room)
    highest = min(max(comparison.high for comparison in intervals), high * room)
    return min(low, lowest) / _ROOM, max(high, highest) * _ROOM


def _leaders(trials: Sequence[Trial], baseline_total_seconds: float) -> list[Trial | None]:
    """Return the best feasible trial so far after each trial; None while the baseline leads."""
    leader: Trial | None = None
    shortest = baseline_total_seconds
    leaders = []
    for trial in trials:
        if trial.feasible and trial.total_seconds is not None and trial.total_seconds < shortest:
            leader, shortest = trial, trial.total_seconds
        leaders.append(leader)
    return leaders


def _ticks(axes: _HistoryAxes) -> tuple[Tick, ...]:
    """Return labelled speed-ups that do not crowd one another; 1 is always among them."""
    ticks = [Tick(axes.y_of(1.0), "1x")]
    for speedup in _TICKS:
        y = axes.y_of(speedup)
        if axes.low <= speedup <= axes.high and all(abs(y - tick.at) >= _TICK_DISTANCE for tick in ticks):
            ticks.append(Tick(y, f"{speedup:g}x"))
    return tuple(ticks)
