"""When pairs of processes show that settings are faster, and how many it takes."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from autoaccel.records.trial import Comparison
from autoaccel.statistics.comparison import (
    CONFIDENCE,
    NOISE_THRESHOLD,
    PAIR_SCATTER,
    PROCESS_DEVIATION,
    Errors,
    Pair,
    compare,
    errors_of,
    middle,
    pair_logs,
    without_excess,
    z_of,
)
from autoaccel.statistics.sequences import believed_deviation, deviation_of, learned, t_radius_for
from autoaccel.statistics.stopping import stopping_excess

MIN_PAIRS = 2
"""Before anything is decided: one pair alone would rest on what is known of other machines' scatter only."""

MAX_PAIRS = 16  # by then it must be decided
_ENOUGH_PAIRS = 10  # what is proven after so many is not measured any longer
FURTHER_PAIRS = 4
"""After a close decision that settings are faster. Pairs that decided read too high, because they decided; with as many
that did not, simulated claims are right on average where a decision is close (tests/proof/test_proof.py)."""

_CLOSE = 2.0
"""Standard errors between what decided and what was needed below which a decision is close. Values that must lie above
a bound have a mean that is too high by phi(z) / Phi(z) standard errors, with z of them between (the mean of a truncated
normal distribution): 5.5 % of one at two, which is 0.3 % of a speed-up with two usual pairs; 29 % of one at one."""

_MIN_PAIRS_TO_GIVE_UP = 3  # with fewer the spread is hardly known
_PRECISE = 0.02
"""A claim whose standard error is below this is not made sharper: 2 % decides nothing."""
_PRECISE_SHARE = 0.1
"""A tenth of the gain decides nothing either: who trains in half of the time does not care for 1.9 or 2.1 times."""


def share_of_error(contender: int) -> float:
    """Return what part of the allowed error the proof of the n-th contender, from 1, may use up.

    Each gets half of what is left: among many contenders one looks proven by chance, so they share one error.
    """
    return 0.5**contender


class SpeedRule(NamedTuple):
    """When pairs show that settings are worth having, or that further pairs will hardly show it."""

    error: float  # that the proof may make
    min_speedup: float
    max_pairs: int = MAX_PAIRS  # by then it must be decided
    drift: float = 0.0  # of the log speed-up from hour to hour; see `SHARED_DRIFT`

    @property
    def needed(self) -> float:
        """Speed-up above which the whole interval must lie."""
        return max(self.min_speedup, 1 + NOISE_THRESHOLD)

    def compare(self, pairs: Sequence[Sequence[Pair]]) -> Comparison | None:
        """Return what the pairs say; None as long as they are too few."""
        return compare(pairs, 1 - self.error, self.drift) if len(pairs) >= MIN_PAIRS else None

    def decide(self, pairs: Sequence[Sequence[Pair]]) -> bool | None:
        """Return whether the settings are faster; None: it is open."""
        logs = pair_logs(pairs)
        return self._decide(logs, errors_of(pairs, logs, self.drift)) if len(pairs) >= MIN_PAIRS else None

    def _decide(self, logs: Sequence[float], errors: Errors) -> bool | None:
        """Return whether settings with these log speed-ups are faster; None: it is open.

        It is the interval of `compare` that decides. Settings are given up where they are so little faster that the
        remaining pairs could hardly show it. Giving up too early loses a small gain and claims nothing, so no error is
        spent on it.
        """
        count = len(logs)
        if count < MIN_PAIRS:
            return None
        z, needed, deviation = z_of(1 - self.error), math.log(self.needed), deviation_of(logs)
        center = middle(logs) + errors.long.excess
        radius = t_radius_for(count, deviation, self.error, errors.scatter)
        if center - errors.below(radius, z) > needed:
            return True
        if center + errors.above(radius, z) < needed:
            return False
        if count < _MIN_PAIRS_TO_GIVE_UP:
            return None
        believed = believed_deviation(count, deviation, errors.scatter)
        hoped = center + math.hypot(believed / math.sqrt(count), errors.long.above(1.0))
        last = t_radius_for(self.max_pairs, believed, self.error, errors.scatter)
        of_turns = errors.long.below(z) * math.sqrt(min(1.0, count / self.max_pairs))
        return False if hoped - math.hypot(last, z * self.drift, of_turns) < needed else None

    def missing_pairs(self, pairs: Sequence[Sequence[Pair]], decided_at: int) -> int:
        """Return after how many more pairs the claim will be sharp enough, if they scatter as these do; 0 if it is.

        Args:
            pairs: So far.
            decided_at: How many of them have decided that the settings are faster.
        """
        logs = pair_logs(pairs)
        errors = errors_of(pairs, logs, self.drift)
        least = decided_at + FURTHER_PAIRS if self._was_close(logs[:decided_at], errors) else 0
        most = max(decided_at + FURTHER_PAIRS, _ENOUGH_PAIRS)  # more are not made for the sake of precision
        precise = max(_PRECISE, _PRECISE_SHARE * (middle(logs) + errors.long.excess))
        one = math.hypot(
            believed_deviation(len(logs), deviation_of(logs), errors.scatter),
            errors.long.below(1.0) * math.sqrt(len(logs)),
        )
        count = max(len(logs), least)
        while count < most and one / math.sqrt(count) >= precise:
            count += 1
        return count - len(logs)

    def confirming_pairs(self, pairs: Sequence[Sequence[Pair]], decided_at: int) -> int:
        """Return how many more pairs must confirm a close decision, whatever they take: without them it errs too often.

        In simulated proofs of equal settings whose processes scatter by 0.3, or now and then by much more, 4 to 6 of
        100 were called faster without them, and 1 to 3 with them.
        """
        logs = pair_logs(pairs)
        close = self._was_close(logs[:decided_at], errors_of(pairs, logs, self.drift))
        return max(0, decided_at + FURTHER_PAIRS - len(pairs)) if close else 0

    def _was_close(self, logs: Sequence[float], errors: Errors) -> bool:
        """Return whether as many other pairs might well not have decided it."""
        count, deviation = len(logs), deviation_of(logs)
        radius = t_radius_for(count, deviation, self.error, errors.scatter)
        bound = math.log(self.needed) + errors.below(radius, z_of(1 - self.error))
        one = math.hypot(
            believed_deviation(count, deviation, errors.scatter) / math.sqrt(count), errors.long.below(1.0)
        )
        return middle(logs) + errors.long.excess - bound < _CLOSE * one

    def stands(self, pairs: Sequence[Sequence[Pair]], decided_at: int) -> bool:
        """Return whether `decided_at` pairs still decide that the settings are faster, by what all tell of errors.

        Those after them may show long turns, or a scatter, with which the first would not have decided: two pairs that
        agree by chance rest on what other machines' pairs scatter.
        """
        logs = pair_logs(pairs)
        return bool(self._decide(logs[:decided_at], self._errors_after(pairs, logs, decided_at)))

    def _errors_after(self, pairs: Sequence[Sequence[Pair]], logs: Sequence[float], decided_at: int) -> Errors:
        errors, later = errors_of(pairs, logs, self.drift), logs[decided_at:]
        if len(later) < 2:
            return errors
        return errors._replace(scatter=learned(errors.scatter, len(later), deviation_of(later)))

    def conclude(self, pairs: Sequence[Sequence[Pair]], decided_at: int) -> Comparison:
        """Return what all pairs say once `decided_at` of them have decided that the settings are faster.

        What these have shown stays shown if the decision `stands`.
        """
        found = compare(pairs, 1 - self.error, self.drift)
        if not self.stands(pairs, decided_at):
            return found
        logs = pair_logs(pairs)
        errors = errors_of(pairs, logs, self.drift)
        excess = stopping_excess(logs, decided_at, lambda some: self._decide(some, errors))
        return without_excess(found, excess, self.needed)

    def proves(self, comparison: Comparison) -> bool:
        """Return whether a comparison that was concluded shows that the settings are worth having."""
        return comparison.low >= self.needed and comparison.speedup > self.needed


def rule_for(contender: int, min_speedup: float, max_pairs: int = MAX_PAIRS, drift: float = 0.0) -> SpeedRule:
    """Return the rule that judges the speed of the n-th contender, from 1, whose steps need this speed-up."""
    return SpeedRule((1 - CONFIDENCE) * share_of_error(contender), min_speedup, max_pairs, drift)


@functools.lru_cache(maxsize=4096)
def deciding_pairs(speedup: float, drift: float = 0.0) -> int:
    """Return how many pairs decide in nine of ten cases on a speed-up that one process showed: at most all.

    One process, the best of several, usually shows more than the truth: a standard deviation of a process's luck is
    taken off. Pairs are taken to scatter as usual.

    Args:
        speedup: That one process showed.
        drift: Of the log speed-up from hour to hour, for which the interval has room; see `SHARED_DRIFT`.
    """
    return next((count for count in range(MIN_PAIRS, MAX_PAIRS) if speedup >= decided_speedup(count, drift)), MAX_PAIRS)


def decided_speedup(pairs: int, drift: float = 0.0) -> float:
    """Return the least speed-up, as one process shows it, on which so many pairs decide; see `deciding_pairs`."""
    radius, one = _usual_radius(pairs, drift)
    return (1 + NOISE_THRESHOLD) * math.exp(PROCESS_DEVIATION + radius + NormalDist().inv_cdf(0.9) * one)


def expected_pairs(speedup: float, drift: float = 0.0) -> int:
    """Return how many pairs suffice to prove a speed-up: those that decide, and further ones after a close decision."""
    count = deciding_pairs(speedup, drift)
    radius, one = _usual_radius(count, drift)
    is_close = _gap(speedup) - radius < _CLOSE * one
    return min(MAX_PAIRS, count + FURTHER_PAIRS) if is_close else count


@functools.lru_cache(maxsize=4096)
def likely_pairs(speedup: float, drift: float = 0.0) -> int:
    """Return how many pairs a proof is likely to take, which may be fewer than it should have time for.

    Where all of them could hardly show the speed-up, it is given up as soon as that is clear.
    """
    gives_up = deciding_pairs(speedup, drift) == MAX_PAIRS
    return _MIN_PAIRS_TO_GIVE_UP if gives_up else expected_pairs(speedup, drift)


def provable_log(drift: float = 0.0) -> float:
    """Return the least log speed-up that all pairs of a proof show in half of all cases, if they scatter as usual."""
    return math.log1p(NOISE_THRESHOLD) + _usual_radius(MAX_PAIRS, drift)[0]


def chance_of_proof(speedup: float, drift: float = 0.0) -> float:
    """Return the probability that a proof shows a speed-up that one process, the best of several, showed.

    Its truth is taken to lie a standard deviation of a process's luck lower, and as far from that as such luck reaches.
    """
    beyond = math.log(speedup) - PROCESS_DEVIATION - provable_log(drift)
    return NormalDist().cdf(beyond / PROCESS_DEVIATION)


def _gap(speedup: float) -> float:
    """Return by how much the logarithm of a speed-up that one process showed may be expected to exceed the noise."""
    return math.log(speedup / (1 + NOISE_THRESHOLD)) - PROCESS_DEVIATION


def _usual_radius(count: int, drift: float) -> tuple[float, float]:
    """Return the radius of a first contender's interval after `count` usual pairs, and the error of their middle."""
    error, deviation = (1 - CONFIDENCE) * share_of_error(1), PAIR_SCATTER.deviation
    radius = t_radius_for(count, deviation, error, PAIR_SCATTER)
    return math.hypot(radius, z_of(1 - error) * drift), deviation / math.sqrt(count)
