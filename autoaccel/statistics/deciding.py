"""When pairs of processes show that settings are faster, and how many it takes."""

from __future__ import annotations

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
    Pair,
    compare,
    middle,
    pair_logs,
    scatter_known,
    without_excess,
)
from autoaccel.statistics.sequences import Scatter, believed_deviation, deviation_of, t_radius_for
from autoaccel.statistics.stopping import stopping_excess

MIN_PAIRS = 2
"""Before anything is decided: one pair alone would rest on what is known of other machines' scatter only."""

MAX_PAIRS = 16  # by then it must be decided
_ENOUGH_PAIRS = 10  # what is proven after so many is not measured any longer
FURTHER_PAIRS = 4
"""After a close decision that settings are faster. Pairs that decided read too high, because they decided; with as many
that did not, simulated claims are right on average where a decision is close (tests/session/test_proof.py)."""

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

    @property
    def needed(self) -> float:
        """Speed-up above which the whole interval must lie."""
        return max(self.min_speedup, 1 + NOISE_THRESHOLD)

    def compare(self, pairs: Sequence[Sequence[Pair]]) -> Comparison | None:
        """Return what the pairs say; None as long as they are too few."""
        return compare(pairs, 1 - self.error) if len(pairs) >= MIN_PAIRS else None

    def decide(self, pairs: Sequence[Sequence[Pair]]) -> bool | None:
        """Return whether the settings are faster; None: it is open."""
        return self._decide(pair_logs(pairs), scatter_known(pairs)) if len(pairs) >= MIN_PAIRS else None

    def _decide(self, logs: Sequence[float], known: Scatter) -> bool | None:
        """Return whether settings with these log speed-ups are faster; None: it is open.

        They are given up where they are so little faster that the remaining pairs could hardly show it. Giving up too
        early loses a small gain and claims nothing, so no error is spent on it.
        """
        count = len(logs)
        if count < MIN_PAIRS:
            return None
        center, needed, deviation = middle(logs), math.log(self.needed), deviation_of(logs)
        radius = t_radius_for(count, deviation, self.error, known)
        if center - radius > needed:
            return True
        if center + radius < needed:
            return False
        if count < _MIN_PAIRS_TO_GIVE_UP:
            return None
        believed = believed_deviation(count, deviation, known)
        hoped = center + believed / math.sqrt(count)
        return False if hoped - t_radius_for(self.max_pairs, believed, self.error, known) < needed else None

    def missing_pairs(self, pairs: Sequence[Sequence[Pair]], decided_at: int) -> int:
        """Return after how many more pairs the claim will be sharp enough, if they scatter as these do; 0 if it is.

        Args:
            pairs: So far.
            decided_at: How many of them have decided that the settings are faster.
        """
        logs, known = pair_logs(pairs), scatter_known(pairs)
        least = decided_at + FURTHER_PAIRS if self._was_close(logs[:decided_at], known) else 0
        most = max(decided_at + FURTHER_PAIRS, _ENOUGH_PAIRS)  # more are not made for the sake of precision
        precise = max(_PRECISE, _PRECISE_SHARE * middle(logs))
        count = max(len(logs), least)
        while count < most and believed_deviation(count, deviation_of(logs), known) / math.sqrt(count) >= precise:
            count += 1
        return count - len(logs)

    def _was_close(self, logs: Sequence[float], known: Scatter) -> bool:
        """Return whether as many other pairs might well not have decided it."""
        count, deviation = len(logs), deviation_of(logs)
        bound = math.log(self.needed) + t_radius_for(count, deviation, self.error, known)
        return middle(logs) - bound < _CLOSE * believed_deviation(count, deviation, known) / math.sqrt(count)

    def conclude(self, pairs: Sequence[Sequence[Pair]], decided_at: int) -> Comparison:
        """Return what all pairs say once `decided_at` of them have decided that the settings are faster."""
        found, known = compare(pairs, 1 - self.error), scatter_known(pairs)
        excess = stopping_excess(pair_logs(pairs), decided_at, lambda logs: self._decide(logs, known))
        return without_excess(found, excess, self.needed)


def rule_for(contender: int, min_speedup: float, max_pairs: int = MAX_PAIRS) -> SpeedRule:
    """Return the rule that judges the speed of the n-th contender, from 1, whose steps need this speed-up."""
    return SpeedRule((1 - CONFIDENCE) * share_of_error(contender), min_speedup, max_pairs)


def deciding_pairs(speedup: float) -> int:
    """Return how many pairs decide in nine of ten cases on a speed-up that one process showed: at most all.

    One process, the best of several, usually shows more than the truth: a standard deviation of a process's luck is
    taken off. Pairs are taken to scatter as usual.
    """
    return next((count for count in range(MIN_PAIRS, MAX_PAIRS) if speedup >= decided_speedup(count)), MAX_PAIRS)


def decided_speedup(pairs: int) -> float:
    """Return the least speed-up, as one process shows it, on which so many pairs decide; see `deciding_pairs`."""
    radius, one = _usual_radius(pairs)
    return (1 + NOISE_THRESHOLD) * math.exp(PROCESS_DEVIATION + radius + NormalDist().inv_cdf(0.9) * one)


def expected_pairs(speedup: float) -> int:
    """Return how many pairs suffice to prove a speed-up: those that decide, and further ones after a close decision."""
    count = deciding_pairs(speedup)
    radius, one = _usual_radius(count)
    is_close = _gap(speedup) - radius < _CLOSE * one
    return min(MAX_PAIRS, count + FURTHER_PAIRS) if is_close else count


def likely_pairs(speedup: float) -> int:
    """Return how many pairs a proof is likely to take, which may be fewer than it should have time for.

    Where all of them could hardly show the speed-up, it is given up as soon as that is clear.
    """
    return _MIN_PAIRS_TO_GIVE_UP if deciding_pairs(speedup) == MAX_PAIRS else expected_pairs(speedup)


def _gap(speedup: float) -> float:
    """Return by how much the logarithm of a speed-up that one process showed may be expected to exceed the noise."""
    return math.log(speedup / (1 + NOISE_THRESHOLD)) - PROCESS_DEVIATION


def _usual_radius(count: int) -> tuple[float, float]:
    """Return the radius of a first contender's interval after `count` usual pairs, and the error of their middle."""
    error, deviation = (1 - CONFIDENCE) * share_of_error(1), PAIR_SCATTER.deviation
    return t_radius_for(count, deviation, error, PAIR_SCATTER), deviation / math.sqrt(count)
