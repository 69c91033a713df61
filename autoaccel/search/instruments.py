"""What a search measures with: what compares settings, a clock that knows the budget, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from autoaccel.records.messages import Failure, Turn
from autoaccel.records.progress import Listener
from autoaccel.records.proof import TrainedPair
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Measurement, Trial
from autoaccel.statistics.comparison import Pair
from autoaccel.statistics.turn_plan import Enough

Trend = Literal["", "look later", "given up"]
"""Whether a trend was seen within pairs of processes. Then none so far counts, and the next look later into their
training, or that would take too long."""


class Reading(NamedTuple):
    """What two processes show in turns: one under some settings, and the reference, which they are compared with."""

    measurement: Measurement  # of the one under the settings
    reference_turns: tuple[Turn, ...]
    pairs: list[Pair]  # step seconds of the turns that count: all undisturbed ones, or all if hardly any was
    trusted: bool  # enough turns were undisturbed
    steps: int = 0  # of each side that were looked at
    trained: TrainedPair | None = None  # what the two came to, if they trained to their end
    own_failure: Failure | None = None  # why the one under the user's own settings came to nothing, if so
    trend: Trend = ""  # with this pair of processes taken in


class QuickLook(NamedTuple):
    """What a search asks of settings: how they compare with the user's own, as soon as that is clear enough."""

    name: str  # of the log
    enough: Enough
    timeout_seconds: float  # for all


class Clock(Protocol):
    """What knows how much of the budget is left: a `BudgetClock`, or one that a simulation moves."""

    @property
    def left(self) -> float: ...

    @property
    def spent(self) -> float: ...


@dataclass(frozen=True)
class Instruments:
    """What a search measures with, and whom it tells."""

    compare: Callable[[Settings, QuickLook], Reading | Failure]  # a bench's, or that of readings taken before
    clock: Clock
    keep: Callable[[Trial], None]  # told every finished trial, to keep it
    tell: Listener  # told what happens
