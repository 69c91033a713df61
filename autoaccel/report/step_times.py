"""The step time of a training that was tuned while it ran, over its steps: geometry only, the template draws it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autoaccel.records.live import LiveTried
from autoaccel.records.settings import Settings, format_value
from autoaccel.report.chart import Tick
from autoaccel.report.wording import comparison_words
from autoaccel.units import format_duration

WIDTH, HEIGHT = 720.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 14.0, 24.0, 40.0
_RIGHT_EDGE, _BOTTOM_EDGE = WIDTH - _RIGHT, HEIGHT - _BOTTOM
_LONGEST = 3.0  # times the median: what is longer is cut off, or nothing else could be told apart


class StepMean(NamedTuple):
    """Some steps in a row."""

    first: int  # of them, from 0
    steps: int
    seconds: float  # of a step, in the mean


class LiveStory(NamedTuple):
    """What a report tells of a training that was tuned while it ran, beside its recipe."""

    means: Sequence[StepMean]  # of all its steps, in their order
    tried: Sequence[LiveTried]


@dataclass(frozen=True)
class SwitchMark:
    """Where settings were taken on for good, or given up."""

    x: float
    label: str
    number: int


@dataclass(frozen=True)
class StepTimes:
    """Step time over steps, in pixels from the top left corner."""

    path: str
    marks: tuple[SwitchMark, ...]
    seconds: tuple[Tick, ...]
    steps: tuple[Tick, ...]
    left: float = _LEFT
    right: float = _RIGHT_EDGE
    top: float = _TOP
    bottom: float = _BOTTOM_EDGE


class TriedRow(NamedTuple):
    """A comparison as the report shows it."""

    number: int
    after: str
    changes: tuple[str, ...]
    against: tuple[str, ...]
    outcome: str
    became: str


def step_times(story: LiveStory) -> StepTimes | None:
    """Return the chart; None if no step was seen."""
    if not story.means:
        return None
    last = story.means[-1]
    steps = last.first + last.steps
    longest = min(max(one.seconds for one in story.means), _LONGEST * statistics.median(o.seconds for o in story.means))

    def x_of(step: float) -> float:
        return round(_LEFT + (_RIGHT_EDGE - _LEFT) * step / steps, 1)

    def y_of(seconds: float) -> float:
        return round(_BOTTOM_EDGE - min(1.0, seconds / (1.05 * longest)) * (_BOTTOM_EDGE - _TOP), 1)

    points = [(x_of(one.first + one.steps / 2), y_of(one.seconds)) for one in story.means]
    return StepTimes(
        path="M" + "L".join(f"{x} {y}" for x, y in points),
        marks=tuple(
            SwitchMark(x_of(min(steps, one.after_steps)), f"{_words(one.settings)}: {one.became}", number)
            for number, one in enumerate(story.tried, 1)
            if one.became != "left"
        ),
        seconds=tuple(Tick(y_of(share * longest), format_duration(share * longest)) for share in (0.25, 0.5, 0.75, 1)),
        steps=tuple(Tick(x_of(share * steps), f"{round(share * steps):,}") for share in (0, 0.25, 0.5, 0.75, 1)),
    )


def tried_rows(story: LiveStory) -> list[TriedRow]:
    """Return a row for each comparison, in their order."""
    return [
        TriedRow(
            number,
            f"{one.after_steps:,} steps, {format_duration(one.after_seconds)}",
            _changes(one),
            tuple(f"{name}={format_value(value)}" for name, value in one.against.items()),
            _outcome(one),
            one.became,
        )
        for number, one in enumerate(story.tried, 1)
    ]


def _outcome(one: LiveTried) -> str:
    if one.harm:
        return one.harm
    if one.rounding is not None and one.rounding.verdict != "holds":
        return one.rounding.reason or one.rounding.verdict
    return comparison_words(one.comparison) if one.comparison is not None else "not compared"


def _changes(one: LiveTried) -> tuple[str, ...]:
    return tuple(f"{name}={format_value(value)}" for name, value in one.settings.items())


def _words(settings: Settings) -> str:
    return ", ".join(f"{name}={format_value(value)}" for name, value in settings.items()) or "your own settings"
