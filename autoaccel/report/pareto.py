"""Where the marks of speed against accuracy lie: geometry only, the template draws it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.recipe import Recipe
from autoaccel.records.settings import Settings, describe_change, settings_key
from autoaccel.records.trial import Trial
from autoaccel.records.workload import Direction
from autoaccel.report.accuracy import metric_words
from autoaccel.report.chart import Tick
from autoaccel.report.wording import speedup_words
from autoaccel.space.knobs import KNOBS, is_exact
from autoaccel.text import one_line

WIDTH, HEIGHT = 360.0, 230.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 22.0, 24.0, 44.0
_ROOM = 0.08  # of the range beyond the outermost marks
_RIGHT_EDGE, _BOTTOM_EDGE = WIDTH - _RIGHT, HEIGHT - _BOTTOM
_MAX_TICKS = 5
_KEPT_ANYWAY = ("exact", "redrawn")  # evidence: the metric is that of the user's own settings
_MAX_NAME = 40  # characters of the metric's name that there is room for


@dataclass(frozen=True)
class Point:
    """Some settings: how fast their steps are, and what they train to."""

    kind: str  # "own", "best", "feasible" or "infeasible"
    x: float
    y: float
    label: str


@dataclass(frozen=True)
class Pareto:
    """Speed-up and metric of all settings of which both are known, in pixels from the top left corner."""

    metric: str  # its name
    points: tuple[Point, ...]
    front: str  # SVG path through those than which none is both faster and better
    left: float
    right: float
    top: float
    bottom: float
    speedups: tuple[Tick, ...]
    metrics: tuple[Tick, ...]
    limit_y: float  # of the worst metric that is accepted


def speed_and_accuracy(recipe: Recipe, trials: Sequence[Trial], inexact: Collection[str] = ()) -> Pareto | None:
    """Return the picture, or None where the metric of nothing but the user's own settings is known.

    Known is the metric of what was proven or refused, and of settings that change no number: it is the user's own.

    Args:
        recipe: What the trials came to.
        trials: Of the run.
        inexact: Knobs that are exact elsewhere, but not on this training.
    """
    accuracy = _judged_accuracy(recipe, trials)
    if accuracy is None or accuracy.baseline is None:
        return None
    baseline_settings = recipe.baseline.settings
    known = _known_settings(recipe, trials, accuracy.baseline, inexact)
    limit = _limit(recipe, accuracy.baseline, accuracy.direction)
    axes = _ParetoAxes(_range([one.speedup for one in known]), _range([*(one.metric for one in known), limit]))
    return Pareto(
        metric=one_line(accuracy.metric)[:_MAX_NAME],
        points=tuple(
            Point(
                one.kind,
                axes.x_of(one.speedup),
                axes.y_of(one.metric),
                f"{describe_change(one.settings, baseline_settings)}: "
                f"{speedup_words(one.speedup)}, {metric_words(one.metric)}",
            )
            for one in known
        ),
        front=_front([(axes.x_of(one.speedup), axes.y_of(one.metric)) for one in known], accuracy),
        left=_LEFT,
        right=_RIGHT_EDGE,
        top=_TOP,
        bottom=_BOTTOM_EDGE,
        speedups=tuple(Tick(axes.x_of(speedup), f"{speedup:g}x") for speedup in _round_numbers(*axes.speedups)),
        metrics=tuple(Tick(axes.y_of(metric), f"{metric:g}") for metric in _round_numbers(*axes.metrics)),
        limit_y=axes.y_of(limit),
    )


class _Known(NamedTuple):
    """Settings of which both speed-up and metric are known."""

    kind: str  # see Point
    speedup: float
    metric: float
    settings: Settings


class _ParetoAxes(NamedTuple):
    """The ranges that the picture shows, and where in it a value lies, in pixels."""

    speedups: tuple[float, float]
    metrics: tuple[float, float]

    def x_of(self, speedup: float) -> float:
        low, high = self.speedups
        return round(_LEFT + (_RIGHT_EDGE - _LEFT) * (speedup - low) / (high - low), 1)

    def y_of(self, metric: float) -> float:
        low, high = self.metrics
        return round(_BOTTOM_EDGE - (_BOTTOM_EDGE - _TOP) * (metric - low) / (high - low), 1)


def _judged_accuracy(recipe: Recipe, trials: Sequence[Trial]) -> Accuracy | None:
    """Return the first accuracy that rests on trainings, the recipe's before those of trials."""
    judged = [recipe.accuracy, *(trial.accuracy for trial in trials)]
    return next((one for one in judged if one is not None and one.repeats), None)


def _known_settings(recipe: Recipe, trials: Sequence[Trial], baseline: float, inexact: Collection[str]) -> list[_Known]:
    """Return all settings of which both are known, each once: what was proven counts more than a trial."""
    baseline_settings = recipe.baseline.settings
    found: dict[str, _Known] = {}
    for trial in trials:
        metric = _metric_of(trial, baseline_settings, baseline, inexact)
        if trial.comparison is not None and metric is not None:
            kind = "feasible" if trial.feasible else "infeasible"
            found[settings_key(trial.settings)] = _Known(kind, trial.comparison.speedup, metric, trial.settings)
    found[settings_key(baseline_settings)] = _Known("own", 1.0, baseline, baseline_settings)
    if not recipe.is_baseline and (metric := _metric_of_recipe(recipe, baseline)) is not None:
        found[settings_key(recipe.settings)] = _Known("best", recipe.comparison.speedup, metric, recipe.settings)
    return list(found.values())


def _metric_of(trial: Trial, baseline_settings: Settings, baseline: float, inexact: Collection[str]) -> float | None:
    if trial.accuracy is not None and trial.accuracy.evidence not in _KEPT_ANYWAY:
        return trial.accuracy.recipe
    if trial.accuracy is not None:
        return baseline
    known = all(name in KNOBS for name in trial.settings)
    return baseline if known and is_exact(trial.settings, baseline_settings, inexact) else None


def _metric_of_recipe(recipe: Recipe, baseline: float) -> float | None:
    if recipe.accuracy is None or recipe.accuracy.evidence in _KEPT_ANYWAY:
        return baseline
    return recipe.accuracy.recipe


def _limit(recipe: Recipe, baseline: float, direction: Direction) -> float:
    allowed = recipe.constraint.max_drop * (abs(baseline) if recipe.constraint.relative else 1.0)
    return baseline - allowed if direction == "maximize" else baseline + allowed


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = _ROOM * (high - low) or _ROOM * max(abs(high), 1.0)
    return low - room, high + room


def _round_numbers(low: float, high: float) -> list[float]:
    """Return the multiples of 1, 2 or 5 times a power of ten within the range: as many as there is room for."""
    power = 10.0 ** math.floor(math.log10((high - low) / _MAX_TICKS))
    step = next(step for factor in (1, 2, 5, 10) if (high - low) / (step := factor * power) <= _MAX_TICKS)
    return [round(index * step, 12) for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _front(places: Sequence[tuple[float, float]], accuracy: Accuracy) -> str:
    """Return the path through the places that no other beats in both, from the slowest to the fastest."""
    sign = 1 if accuracy.direction == "maximize" else -1  # of downward: a larger y is a smaller metric
    front: list[tuple[float, float]] = []
    for x, y in sorted(set(places), key=lambda place: (-place[0], sign * place[1])):
        if not front or sign * y < sign * front[-1][1]:
            front.append((x, y))
    return "M" + "L".join(f"{x} {y}" for x, y in reversed(front))
