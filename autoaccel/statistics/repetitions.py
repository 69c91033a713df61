"""How many turns to take within each pair of processes."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence


def successive_differences(values: Sequence[float]) -> list[float]:
    """Return by how much each value differs from the one before: a drift of the machine hardly shows in these."""
    return [abs(late - early) for early, late in itertools.pairwise(values)]


def deviation_of_differences(differences: Sequence[float]) -> float:
    """Return the standard deviation of values whose successive differences these are; one or more must be given.

    By their median: a few disturbed values must not count. The difference of two normal values has sqrt(2) times the
    deviation of one, and 1.4826 times its median size.
    """
    return 1.4826 * statistics.median(differences) / math.sqrt(2)


def best_repetitions(
    start_seconds: float, repetition_seconds: float, start_deviation: float, repetition_deviation: float
) -> float:
    """Return how many repetitions within each start make the mean most exact for the time that it takes.

    Starts scatter by themselves, and repetitions within a start beside that. With n of them the variance of a start's
    mean is start_deviation^2 + repetition_deviation^2 / n, its time start_seconds + n * repetition_seconds, and the
    product of both is least at this n (Kalibera and Jones, ISMM 2013, section 6).

    Args:
        start_seconds: What a start takes before anything counts.
        repetition_seconds: What one repetition takes.
        start_deviation: Standard deviation of what is measured from one start to the next.
        repetition_deviation: The same from one repetition to the next.
    """
    return math.sqrt(start_seconds / repetition_seconds) * repetition_deviation / start_deviation
