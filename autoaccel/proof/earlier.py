"""What an earlier part of the run has found in its proofs, some of which it left open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autoaccel.records.contender import OPEN, ContenderResult
from autoaccel.records.proof import ProofPair
from autoaccel.records.settings import Settings, settings_key


class Earlier(NamedTuple):
    """What an earlier part of the run has proven, refuted, and left open."""

    results: Sequence[ContenderResult]  # of the proofs that ended, in their order
    pairs: Sequence[ProofPair]  # of all proofs, in their order

    @property
    def numbers(self) -> dict[str, int]:
        """Key of settings -> which candidate they were, from 1: the same share of the error decides again."""
        return {settings_key(one.settings): one.number for one in self.results if one.result != "fails"}

    def pairs_of(self, settings: Settings) -> list[ProofPair]:
        """Return the pairs of the proof of some settings, in their order."""
        return [pair for pair in self.pairs if pair.settings == settings]

    def differed_by_updates(self, settings: Settings) -> bool:
        """Whether updates have told that settings do more than round: only runs can tell more."""
        return any(one.settings == settings and one.result == "more than rounding" for one in self.results)

    def parts_with_runs(self, settings: Settings) -> int:
        """Return how many parts of the run may have trained to judge the metric of some settings."""
        if not any(pair.steps for pair in self.pairs_of(settings)):
            return 0
        return max(1, sum(one.settings == settings for one in self.results))  # one that was interrupted left no result

    @property
    def refuted(self) -> list[Settings]:
        """Settings that were not faster."""
        return [one.settings for one in self.results if one.result == "not faster"]

    @property
    def open(self) -> list[Settings]:
        """Settings whose proof has not ended: the interrupted one, then those for which there was no time."""
        last = {settings_key(one.settings): one for one in self.results}
        left = [one.settings for one in last.values() if one.result in OPEN]
        interrupted = self.pairs[-1].settings if self.pairs else None
        if interrupted is not None and settings_key(interrupted) not in last:
            return [interrupted, *left]
        return left


NOTHING_EARLIER = Earlier((), ())
