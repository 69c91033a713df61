"""Proving: what a contest asks for, namely proofs, what they took, and the time that others would take."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

from autoaccel.records.contender import ProofReason, ProofResult
from autoaccel.records.evidence import MetricPlan
from autoaccel.records.settings import Settings
from autoaccel.search.loop import Reserve
from autoaccel.search.ranking import Contender
from autoaccel.session.contributions import Breakdown
from autoaccel.session.proof import Proof


class Open(NamedTuple):
    """A proof that could not be completed."""

    contender: Contender
    result: ProofResult
    missing_seconds: float  # that the rest is expected to take; infinite if no larger budget would do
    by: MetricPlan | None = None  # what would show whether the metric is kept; None if nothing need be shown


class Attempt(NamedTuple):
    """A contender's proof, and what it took."""

    contender: Contender
    proof: Proof
    spent_seconds: float
    missing_seconds: float = math.inf  # that the rest of an open one is expected to take
    by: MetricPlan | None = None  # what would show whether the metric is kept
    beyond_updates: tuple[str, ...] = ()  # settings but for which updates could show that; none where runs alone could


class Proving(Protocol):
    """What a contest asks for: the proofs, and the time that they need."""

    def needed(self, settings: Settings, speedup: float | None) -> float:
        """Return the seconds that the proof of settings is expected to take.

        Args:
            settings: To be proven.
            speedup: Of their steps; None if it is not known.
        """

    def reserve(self, settings: Settings, speedup: float | None) -> float:
        """Return the seconds that must be left to prove settings; see `Search.run`."""

    def likely_seconds(self, settings: Settings, speedup: float | None = None) -> float:
        """Return the seconds that the proof of settings is likely to take, by evidence that costs less than they save.

        Infinite if there is none. A speed-up of None stands for a large one.
        """

    @property
    def drift(self) -> float:
        """Of log speed-ups from hour to hour, for which a proof leaves room."""

    def extend_search(self) -> None:
        """Let the search exceed its share of the budget, as nothing it has found is worth a proof."""

    def prove(self, contender: Contender, number: int, why: ProofReason) -> Attempt | None:
        """Return the proof of the n-th contender; None to leave it to others."""

    def break_down(self, attempt: Attempt) -> Breakdown:
        """Return what each setting contributes to settings that were proven, as far as there is time to tell."""

    def missing(self, contender: Contender) -> Open:
        """Return a contender that there is no time left to prove, with what its proof takes."""

    def keep(self, attempt: Attempt) -> None:
        """Keep a recipe of what was proven, before anything better is looked for: the run may be interrupted."""

    def refused(self, attempt: Attempt, search_continues: bool) -> None:
        """Hear that a contender was not proven, before the next is looked for."""

    def continue_search(self, settings: Settings) -> None:
        """Hear that the search continues after a refusal, with these settings first."""

    def spare_seconds(self, attempt: Attempt) -> float:
        """Return the seconds that are left to look for something better than what was proven, and to prove it."""

    def reserve_beside(self, attempt: Attempt) -> Reserve:
        """Return what tells what must be left to prove something better than what was proven."""

    def begin_further_search(self, attempt: Attempt, settings: Settings) -> None:
        """Hear that something better than what was proven is looked for, with these settings first."""
