"""Bench: what measures, for a tune: living processes, or readings that were taken before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from autoaccel.records.messages import Failure
from autoaccel.records.proof import ProofPair
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import TrainingFacts
from autoaccel.search.trial_source import Reading
from autoaccel.statistics.turn_plan import Enough, TurnPlan


class PairSource(Protocol):
    """What measures a pair of processes, a candidate's and that of what it is compared with."""

    def measure(self, settings: Settings, seed: int, steps: int | None) -> Reading | Failure:
        """Return what one pair shows, both from this seed; with steps, after so many both end and are evaluated."""


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

    def pair_seconds(self, speedup: float = 1.0) -> float:
        """Return about what a fresh pair takes that does not train to its end."""

    def measure(self, settings: Settings, name: str, enough: Enough, timeout_seconds: float) -> Reading | Failure:
        """Return what settings show in turns with the user's own: a trial."""

    def rest(self) -> None:
        """Give free what the user's own settings need, until the next trial."""

    def pairs(self, earlier: Sequence[ProofPair] = ()) -> PairSource:
        """Return what measures settings against the user's own, with these pairs that were measured before."""

    def pairs_against(self, settings: Settings, step_seconds: float) -> tuple[PairSource, Callable[[float], float]]:
        """Return what measures others against some settings, and what a pair takes, by how much faster they are."""

    def compare_updates(self, settings: Settings, has_time: Callable[[int], bool]) -> RoundingEvidence | Failure:
        """Return what single updates say of settings that only round; see `judge_rounding`."""
