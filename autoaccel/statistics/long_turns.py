"""What turns that are longer on one side alone add to the mean step time, and how surely that is known."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple


class RareEvents(NamedTuple):
    """What turns of one side took beyond the other side's beside them, in usual turns: a sum of rare events."""

    total: float = 0.0
    squares: float = 0.0  # sum of the squares of what it consists of

    @property
    def size(self) -> float:
        """What one of them adds: their mean, in which each weighs by what it adds."""
        return self.squares / self.total if self.total else 0.0

    def lower(self, z: float) -> float:
        """Return the least that is expected of as many turns; see `upper`."""
        if not self.total:
            return 0.0
        count = self.total / self.size
        return self.size * count * max(0.0, 1 - 1 / (9 * count) - z / (3 * math.sqrt(count))) ** 3

    def upper(self, z: float, size: float) -> float:
        """Return the most that is expected of as many turns, if their number has a Poisson distribution.

        The events differ in size, so that their sum is compound; it is taken as that of events of one size, of which
        there are as many as give it its variance. The ends are Byar's approximation of the exact ones (Breslow and Day,
        Statistical Methods in Cancer Research II, 1987, p. 69), within 1 % of them also where no event was seen.

        Args:
            z: Standard deviations of a normal distribution to which the confidence belongs.
            size: Of an event that may have been missed.
        """
        size = max(size, self.size)
        if not size:
            return 0.0
        count = self.total / size + 1
        return size * count * (1 - 1 / (9 * count) + z / (3 * math.sqrt(count))) ** 3


class LongTurns(NamedTuple):
    """By how much the ratio of mean step times differs from the middle ratio of turns, and how surely it does.

    The logarithm of the difference is log(1 + baseline / shared) - log(1 + candidate / shared). What slows both sides
    of a pair of turns alike is in neither sum, and what one side alone has is in its own.
    """

    baseline: RareEvents = RareEvents()
    candidate: RareEvents = RareEvents()
    shared: float = 1.0  # what both sides' turns took, in usual turns

    @property
    def excess(self) -> float:
        """What is added to the middle of the log speed-ups."""
        return self._log(self.baseline.total) - self._log(self.candidate.total)

    def below(self, z: float) -> float:
        """Return by how much less `excess` may be, should the baseline's be long less often, the candidate's more.

        The errors of the two sides are independent, and each has limits of its own: MOVER, the method of variance
        estimates recovery (Zou and Donner, Statistics in Medicine 2008). A side of which no long turn was seen may have
        missed one of the kind that the other showed.
        """
        own, other = self.baseline, self.candidate
        fewer = self._log(own.total) - self._log(own.lower(z))
        return math.hypot(fewer, self._log(other.upper(z, own.size)) - self._log(other.total))

    def above(self, z: float) -> float:
        """Return by how much more `excess` may be; see `below`."""
        return LongTurns(self.candidate, self.baseline, self.shared).below(z)

    def _log(self, total: float) -> float:
        return math.log1p(total / self.shared)


def rarest_seen(steps: int) -> int:
    """Return how seldom long steps may come by chance and still be met, in 95 of 100 cases, in so many steps.

    The rule of three (Hanley and Lippman-Hand, JAMA 1983): steps that are long every k-th time are missed by n steps
    with a probability of (1 - 1 / k)^n, which is 5 % where k is a third of n.
    """
    return steps // 3


def long_turns(processes: Sequence[Sequence[tuple[float, float]]], middles: Sequence[float]) -> LongTurns:
    """Return what long turns add, over all pairs of processes.

    A turn is long compared with the one beside it, after the middle ratio of their processes. Pairs are taken together,
    because a long step may come in one of several alone; turns count in usual turns of their process.

    Args:
        processes: For each pair of processes its turns.
        middles: Of the log speed-ups of each.
    """
    differences: list[float] = []
    shared: list[float] = []
    for turns, log in zip(processes, middles, strict=True):
        usual, ratio = statistics.median(baseline for baseline, _ in turns), math.exp(log)
        for baseline, candidate in turns:
            one, other = baseline / usual, ratio * candidate / usual
            differences.append(one - other)
            shared.append(min(one, other))
    return LongTurns(
        _events([value for value in differences if value > 0]),
        _events([-value for value in differences if value < 0]),
        math.fsum(shared),
    )


def _events(values: Sequence[float]) -> RareEvents:
    return RareEvents(math.fsum(values), math.fsum(value * value for value in values))
