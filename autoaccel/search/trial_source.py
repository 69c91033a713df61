"""What a search measures with: a source of readings, a clock that knows the budget, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from autoaccel.records.messages import Failure, Turn
from autoaccel.records.progress import Listener
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Measurement, Trial
from autoaccel.statistics.comparison import Pair
from autoaccel.statistics.turn_plan import Enough


class Reading(NamedTuple):
    """One process in turns with the baseline's."""

    measurement: Measurement
    baseline_turns: tuple[Turn, ...]
    pairs: list[Pair]  # step seconds of the turns that count
    trusted: bool  # enough turns were undisturbed


class TrialSource(Protocol):
    """What measures settings against the baseline: a `LiveBench`, or a table of readings taken before."""

    def measure(self, settings: Settings, name: str, enough: Enough, timeout_seconds: float) -> Reading | Failure: ...


class Clock(Protocol):
    """What knows how much of the budget is left: a `BudgetClock`, or one that a simulation moves."""

    @property
    def left(self) -> float: ...

    @property
    def spent(self) -> float: ...


@dataclass(frozen=True)
class Instruments:
    """What a search measures with, and whom it tells."""

    source: TrialSource
    clock: Clock
    keep: Callable[[Trial], None]  # told every finished trial, to keep it
    tell: Listener  # told what happens
