"""Bench: what measures, for a tune: living processes, or readings that were taken before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from autoaccel.records.messages import Failure
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import TrainingFacts
from autoaccel.search.instruments import QuickLook, Reading
from autoaccel.statistics.turn_plan import TurnPlan


class Reference(NamedTuple):
    """What settings are compared with that are not compared with the user's own."""

    settings: Settings
    step_seconds: float  # that its step takes


class FreshPair(NamedTuple):
    """What a proof asks of settings: how they compare in two processes that serve nothing else, both from one seed."""

    seed: int  # of the first weights and the order of the data
    steps: int | None = None  # after so many both end and are evaluated; None: they are not
    against: Reference | None = None  # None: the user's own settings


Compare = Callable[[Settings, FreshPair], Reading | Failure]
"""Returns what a fresh pair shows of settings: a bench's `compare`, or that of `FreshPairs` alone."""


class Bench(Protocol):
    """The user's own settings, measured, and what measures others against them."""

    @property
    def settings(self) -> Settings:
        """The user's own."""

    @property
    def facts(self) -> TrainingFacts:
        """Of the training."""

    @property
    def measurement(self) -> Measurement:
        """Of the user's own settings, alone."""

    @property
    def plan(self) -> TurnPlan:
        """How turns are taken, in the trials and in the proof."""

    @property
    def step_seconds(self) -> float:
        """What a step takes under the user's own settings."""

    @property
    def ready_seconds(self) -> float:
        """What it takes until a process is warm."""

    @property
    def overhead_seconds(self) -> float:
        """What a run takes beside its settled steps."""

    @property
    def total_seconds(self) -> float:
        """Projected time of the whole planned run under the user's own settings."""

    @property
    def disturbed_share(self) -> float:
        """Share of all turns so far that were disturbed."""

    @property
    def spent_on(self) -> Mapping[str, float]:
        """Seconds by what processes did in them."""

    @property
    def compared_steps(self) -> frozenset[int]:
        """After how many steps the user's own updates are kept, so that only others' are to be made."""

    def trial_seconds(self, speedup: float = 1.0) -> float:
        """Return about what a trial takes that compiles nothing, of settings whose steps are so much faster."""

    def pair_seconds(self, speedup: float = 1.0, against: Reference | None = None) -> float:
        """Return about what a fresh pair takes that does not train to its end; None: against the user's own."""

    def compare(self, settings: Settings, how: QuickLook | FreshPair) -> Reading | Failure:
        """Return what settings show in turns with what they are compared with.

        By which processes, and which of them are alive together, is for the bench to say.
        """

    def compare_updates(self, settings: Settings, has_time: Callable[[int], bool]) -> RoundingEvidence | Failure:
        """Return what single updates say of settings that only round; see `judge_rounding`."""
