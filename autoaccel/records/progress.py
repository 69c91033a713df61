"""What a run tells whoever watches it: a person at a terminal, a log, a notebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.base import Record
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison, Trial
from autoaccel.records.workload import Direction

StageName = Literal["hardware", "baseline", "profile", "search", "confirm", "metric", "contributions", "report"]
"""In their order; the search may continue after a proof that failed. Proving the speed is called "confirm" on disk."""


class WaitStarted(Record, frozen=True):
    """Before the run starts: for whom it waits, or what else measures on this machine, in a sentence."""

    text: str


class RunStarted(Record, frozen=True):
    """The first event of a run, with which its budget begins to be spent."""

    workload: str
    output: str
    budget_seconds: float


class StageStarted(Record, frozen=True):
    """A stage of the run begins; `detail` says what it does in a few words."""

    stage: StageName
    detail: str


class ScriptSeen(Record, frozen=True):
    """A script was observed: what it does, and what can be tuned in it."""

    script: ScriptFacts
    planned_steps: int  # assumed where they could not be read
    open: tuple[str, ...]  # knobs
    closed: dict[str, str]  # knob that the search space names -> why it is not searched
    metric: str = "training loss"
    direction: Direction = "minimize"


class BaselineMeasured(Record, frozen=True):
    """The user's own settings have a step time; every later speed-up is relative to it."""

    settings: Settings
    step_seconds: float
    total_seconds: float  # projected for the whole planned run


class TrialStarted(Record, frozen=True):
    """A trial's process is about to start."""

    number: int
    settings: Settings


class TrialFinished(Record, frozen=True):
    """A trial has an outcome; `best` is the best feasible trial so far, None while it is the baseline."""

    trial: Trial
    best: Trial | None


class PairFinished(Record, frozen=True):
    """One more fresh pair of processes of the proof; what all pairs so far say, if they are enough."""

    number: int
    of: int | None  # at most; None: as many as it takes
    settings: Settings
    comparison: Comparison | None
    accuracy: Accuracy | None = None  # None also where no number changes


class Note(Record, frozen=True):
    """One sentence worth knowing."""

    text: str


Event: TypeAlias = (
    WaitStarted
    | RunStarted
    | StageStarted
    | ScriptSeen
    | BaselineMeasured
    | TrialStarted
    | TrialFinished
    | PairFinished
    | Note
)
Listener: TypeAlias = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Watch nothing."""
