"""Where the marks of speed against accuracy lie: geometry only, the template draws it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from autoaccel.records.recipe import Recipe
from autoaccel.records.settings import Settings, describe_change, settings_key
from autoaccel.records.trial import Accuracy, Trial
from autoaccel.records.workload import Direction
from autoaccel.report.accuracy import metric_words
from autoaccel.report.chart import Tick
from autoaccel.report.wording import one_line, speedup_words
from autoaccel.space.knobs import KNOBS, is_exact

WIDTH, HEIGHT = 360.0, 230.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 22.0, 24.0, 44.0
_ROOM = 0.08  # of the range beyond the outermost marks
_MAX_TICKS = 5
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
    judged = [recipe.accuracy, *(trial.accuracy for trial in trials)]
    accuracy = next((one for one in judged if one is not None and one.repeats), None)
    if accuracy is None or accuracy.baseline is None:
        return None
    baseline = accuracy.baseline
    own = recipe.baseline.settings
    found: dict[str, tuple[str, float, float, Settings]] = {}
    for trial in trials:
        metric = _metric_of(trial, own, baseline, inexact)
        if trial.comparison is not None and metric is not None:
            kind = "feasible" if trial.feasible else "infeasible"
            found[settings_key(trial.settings)] = (kind, trial.comparison.speedup, metric, trial.settings)
    found[settings_key(own)] = ("own", 1.0, baseline, own)
    if not recipe.is_baseline and (metric := _metric_of_recipe(recipe, baseline)) is not None:
        found[settings_key(recipe.settings)] = ("best", recipe.comparison.speedup, metric, recipe.settings)
    entries = list(found.values())
    limit = _limit(recipe, baseline, accuracy.direction)
    speeds, metrics = [entry[1] for entry in entries], [entry[2] for entry in entries]
    low_speed, high_speed = _range(speeds)
    low_metric, high_metric = _range([*metrics, limit])
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM

    def x_of(speedup: float) -> float:
        return round(_LEFT + (right - _LEFT) * (speedup - low_speed) / (high_speed - low_speed), 1)

    def y_of(metric: float) -> float:
        return round(bottom - (bottom - _TOP) * (metric - low_metric) / (high_metric - low_metric), 1)

    points = [
        Point(
            kind,
            x_of(speed),
            y_of(metric),
            f"{describe_change(settings, own)}: {speedup_words(speed)}, {metric_words(metric)}",
        )
        for kind, speed, metric, settings in entries
    ]
    return Pareto(
        metric=one_line(accuracy.metric)[:_MAX_NAME],
        points=tuple(points),
        front=_front([(x_of(speed), y_of(metric)) for _, speed, metric, _ in entries], accuracy),
        left=_LEFT,
        right=right,
        top=_TOP,
        bottom=bottom,
        speedups=tuple(Tick(x_of(speed), f"{speed:g}x") for speed in _round_numbers(low_speed, high_speed)),
        metrics=tuple(Tick(y_of(metric), f"{metric:g}") for metric in _round_numbers(low_metric, high_metric)),
        limit_y=y_of(limit),
    )


def _metric_of(trial: Trial, own: Settings, baseline: float, inexact: Collection[str]) -> float | None:
    if trial.accuracy is not None and trial.accuracy.evidence != "exact":
        return trial.accuracy.recipe
    known = all(name in KNOBS for name in trial.settings)
    return baseline if known and is_exact(trial.settings, own, inexact) else None


def _metric_of_recipe(recipe: Recipe, baseline: float) -> float | None:
    if recipe.accuracy is None or recipe.accuracy.evidence == "exact":
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
