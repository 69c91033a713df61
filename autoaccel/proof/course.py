"""How far a proof has come: what pairs of processes have shown so far, and what that decides."""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

import msgspec

from autoaccel.proof.metric import MetricProof
from autoaccel.records.accuracy import Accuracy
from autoaccel.records.conclusion import Obstacle
from autoaccel.records.contender import ProofResult
from autoaccel.records.messages import Failure
from autoaccel.records.trial import Comparison
from autoaccel.search.instruments import Reading
from autoaccel.statistics.comparison import Pair, compare
from autoaccel.statistics.deciding import SpeedRule
from autoaccel.statistics.spared import Spared, at_least_spared, mean_spared_log, spared_log, system_time


class Proof(NamedTuple):
    """What pairs of processes have shown of settings that were to be proven."""

    result: ProofResult
    pairs: list[list[Pair]]  # turns that count, for each pair of processes
    comparison: Comparison | None  # None with fewer than two pairs
    accuracy: Accuracy | None  # None where nothing is known of the metric yet
    obstacle: Obstacle = None  # what stood in the way of a proof, where the rest does not say it
    proven_after_seconds: float | None = None  # since the start of the run; of the speed, before the metric's proof

    @property
    def failure(self) -> Failure | None:
        """The failure of one of its processes; None if there was none, or only the time ran out."""
        return self.obstacle if self.result == "fails" and isinstance(self.obstacle, Failure) else None

    @property
    def baseline_step_seconds(self) -> float:
        """The baseline's step time: the mean over all turns, because a run pays for its rare long steps, too."""
        return statistics.fmean(baseline for turns in self.pairs for baseline, _ in turns)

    @property
    def log_speedup(self) -> float:
        """The logarithm of the proven speed-up."""
        assert self.comparison is not None  # nothing is proven without
        return math.log(self.comparison.speedup)

    def is_clearly_slower_than(self, other: Proof) -> bool:
        """Whether what this proved lies below all that another leaves possible."""
        assert self.comparison is not None  # nothing is proven without
        assert other.comparison is not None
        return self.comparison.speedup < other.comparison.low


class Course:
    """The pairs of a proof, and with which of them it was decided that the settings are faster."""

    def __init__(self, rule: SpeedRule, metric: MetricProof | None, known: Accuracy, is_spared: bool) -> None:
        """Begin with no pair; see `Prover.prove`."""
        self.metric = metric
        self.pairs: list[list[Pair]] = []  # that count
        self._rule = rule
        self._is_spared = is_spared
        self._spared: list[Spared] = []  # by the settings, in these pairs
        self._steps = 0  # of each side that these looked at
        self._known = known  # of the metric, where nothing need be shown
        self._decided_at: int | None = None  # number of pairs
        self._proven_after: float | None = None

    def decide(self, spent_seconds: float) -> None:
        """Take in that the settings are faster by the pairs so far."""
        self._decided_at, self._proven_after = len(self.pairs), spent_seconds

    def add(self, reading: Reading) -> None:
        """Take in what one more pair shows that counts."""
        self.pairs.append(reading.pairs)
        self._steps += reading.steps
        own, other = system_time(reading.reference_turns), system_time(reading.measurement.turns)
        if self._is_spared and own is not None and other is not None:
            self._spared.append(Spared(own, other))

    def begin_anew(self) -> None:
        """Let no pair count any longer: the ratio has changed within them."""
        self.pairs.clear()
        self._spared.clear()
        self._steps = 0
        self.reopen()

    @property
    def rule(self) -> SpeedRule:
        """By which the speed is judged: with no room for drift where what the system no longer does shows enough."""
        return self._rule._replace(drift=0.0) if self._spared_log > math.log(self._rule.needed) else self._rule

    @property
    def decision(self) -> bool | None:
        """Whether the settings are faster by the pairs so far; None: it is open.

        What the system no longer does may show it after more of them, where room for drift lets hope for nothing.
        """
        found = self.rule.decide(self.pairs)
        if found is not False or mean_spared_log(self._spared) <= math.log(self.rule.needed):
            return found
        return False if self.rule._replace(drift=0.0).decide(self.pairs) is False else None

    @property
    def _spared_log(self) -> float:
        return spared_log(self._spared, self._rule.error)

    @property
    def comparison(self) -> Comparison | None:
        """What the pairs say so far; None if they are too few."""
        return self._told(self.rule.compare(self.pairs))

    def reopen(self) -> None:
        """Let it be open again whether the settings are faster."""
        self._decided_at = self._proven_after = None

    @property
    def stands(self) -> bool:
        """Whether the pairs that decided still would, by what those after them tell of errors."""
        assert self._decided_at is not None
        return self.rule.stands(self.pairs, self._decided_at)

    @property
    def is_faster(self) -> bool:
        """Whether it is decided that the settings are faster."""
        return self._decided_at is not None

    @property
    def missing_pairs(self) -> int:
        """How many more pairs the speed is expected to need, now that it is decided that the settings are faster."""
        assert self._decided_at is not None
        return self.rule.missing_pairs(self.pairs, self._decided_at)

    @property
    def confirming_pairs(self) -> int:
        """How many more pairs must confirm that the settings are faster, because that was decided closely."""
        assert self._decided_at is not None
        return self.rule.confirming_pairs(self.pairs, self._decided_at)

    @property
    def holds(self) -> bool:
        """Whether the settings are faster and keep the metric."""
        return self.is_faster and (self.metric is None or self.metric.status == "holds")

    @property
    def accuracy(self) -> Accuracy | None:
        """What is known of the metric; None if nothing is yet."""
        return self._known if self.metric is None else self.metric.accuracy

    def ended(self, result: ProofResult, obstacle: Obstacle = None) -> Proof:
        """Return the proof of what is refused or left open."""
        return Proof(result, self.pairs, self.comparison, self.accuracy, obstacle)

    def concluded(self) -> Proof:
        """Return the proof of what holds, by the pairs so far: they may tell that it is not as fast as it must be."""
        assert self._decided_at is not None
        found = self._told(self.rule.conclude(self.pairs, self._decided_at))
        assert found is not None  # it was decided
        result: ProofResult = "proven" if self.rule.proves(found) else "not faster"
        return Proof(result, [*self.pairs], found, self.accuracy, proven_after_seconds=self._proven_after)

    def _told(self, found: Comparison | None) -> Comparison | None:
        """Return what is told of a comparison: at least what the system no longer does, if that is what shows it."""
        if found is not None and self.rule.drift != self._rule.drift:
            drifting = compare(self.pairs, found.confidence, self._rule.drift)
            found = at_least_spared(found, drifting, self._spared_log)
        return found and msgspec.structs.replace(found, steps=self._steps)
