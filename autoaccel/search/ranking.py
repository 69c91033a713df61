"""Which settings are proven first: the fastest, or of those that differ from it by less than the noise the simplest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from autoaccel.records.settings import Settings
from autoaccel.search.economy import Economy
from autoaccel.search.knowledge import Knowledge
from autoaccel.space.change import Change
from autoaccel.space.knobs import RISKS
from autoaccel.statistics.comparison import NOISE_THRESHOLD, PROCESS_DEVIATION


class Candidate(NamedTuple):
    """Settings that could become the recipe, as all trials together see them."""

    change: Change
    log_speedup: float  # of a step
    total_seconds: float  # of a projected run

    @property
    def settings(self) -> Settings:
        """One value per knob."""
        return self.change.settings


class Ranking:
    """What could be proven, and what of it first, by what a search has learned."""

    def __init__(self, knowledge: Knowledge, baseline: Settings, economy: Economy) -> None:
        """Rank by what is known, against the user's own settings."""
        self._knowledge = knowledge
        self._baseline = baseline
        self._economy = economy

    def candidates(self, also: Sequence[Settings] = ()) -> list[Candidate]:
        """Return what could be proven, the fastest first: settings with a noticeably shorter projected run.

        Args:
            also: Settings that were not measured, but may be candidates as well.
        """
        worthwhile = self._economy.baseline_total_seconds / (1 + NOISE_THRESHOLD)
        ranked = self._knowledge.ranked(also)
        return [self._candidate(*one) for one in ranked if one.total_seconds < worthwhile]

    def candidate(self, settings: Settings, log_speedup: float) -> Candidate:
        """Return settings as a candidate whose speed-up was measured otherwise than in a trial."""
        return self._candidate(settings, log_speedup, self._knowledge.total_seconds(settings, log_speedup))

    def _candidate(self, settings: Settings, log_speedup: float, total_seconds: float) -> Candidate:
        return Candidate(Change(settings, self._baseline, self._knowledge.space), log_speedup, total_seconds)

    def first(self, candidates: Sequence[Candidate]) -> Candidate | None:
        """Return the candidate to prove first, None if there are none; see `first_to_prove`."""
        return first_to_prove(candidates, self._doubt, self._harms) if candidates else None

    def _doubt(self, one: Candidate, other: Candidate) -> float:
        return self._knowledge.contrast([one.settings, other.settings], [1, -1])[1]

    def _harms(self, candidate: Candidate) -> int:
        """Return how many of a candidate's settings, but a person's wishes, seem to slow it down by a deviation."""
        change = candidate.change
        names = [name for name in change.names if name in change.space.open]
        found = [self._knowledge.contrast([change.settings, change.without(name).settings], [1, -1]) for name in names]
        return sum(mean < -deviation for mean, deviation in found)


def first_to_prove(
    candidates: Sequence[Candidate],
    doubt: Callable[[Candidate, Candidate], float],
    harms: Callable[[Candidate], int],
) -> Candidate:
    """Return which candidate to prove first, of at least one.

    Between runs that differ by less than the noise the one with less risk comes first, because it is surer to be
    proven, then the one with fewer processes, because its proof is cheaper and needs no runs where updates tell; then
    the one without settings that seem to slow it down; then, where they differ by less than is worth a setting, the one
    with fewer changes. A difference above a process's luck is never noise, however little is known.

    Args:
        candidates: To choose from.
        doubt: Returns the standard deviation of the logarithm of the ratio of two candidates' speeds.
        harms: Returns how many of a candidate's own settings seem to slow it down.
    """
    fastest = min(candidates, key=lambda one: one.total_seconds)
    close = [one for one in candidates if _log_ratio(one, fastest) <= PROCESS_DEVIATION]
    alike = [one for one in close if one is fastest or _log_ratio(one, fastest) <= doubt(one, fastest)]
    surest = min(map(_sureness, alike))
    safest = [one for one in alike if _sureness(one) == surest]
    harm = {id(one): harms(one) for one in safest}
    sound = [one for one in safest if harm[id(one)] == min(harm.values())]
    quickest = min(sound, key=lambda one: one.total_seconds)
    as_quick = [one for one in sound if _log_ratio(one, quickest) <= math.log1p(NOISE_THRESHOLD)]
    return min(as_quick, key=lambda one: (len(one.change.names), one.total_seconds))


def _sureness(one: Candidate) -> tuple[int, int]:
    """Return what makes a candidate's proof harder, as a sort key: the easiest comes first."""
    return RISKS.index(one.change.risk), one.change.processes


def _log_ratio(one: Candidate, other: Candidate) -> float:
    return math.log(one.total_seconds / other.total_seconds)
