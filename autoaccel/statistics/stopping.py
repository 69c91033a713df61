"""An estimate that does not profit from when a proof stops: it stops while its values look good."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence

_ORDERS = 200  # drawn by chance; more move the correction of ten pairs by less than 0.1 %


def stopping_excess(
    values: Sequence[float], decided_at: int, decides: Callable[[Sequence[float]], bool | None]
) -> float:
    """Return by how much the mean of all values is expected to be too high, because the first of them decided.

    A proof decides as soon as what it has seen looks good, so that those values are too high on average, most of all
    where a gain is small beside the scatter. What is measured after the decision is not: its mean is the truth on
    average, whatever was decided. It is taken over all orders of the values in which the same number of them would
    have decided the same. That is the mean of what came after, given all values, and has the same expectation with less
    scatter (Rao 1945, Blackwell 1947; for studies in two stages Cohen and Sackrowitz, Statistics & Probability Letters
    1989). Where any order would have decided it is the mean of all, and nothing is too high.

    Args:
        values: In the order in which they were measured.
        decided_at: How many of them had been measured when it was decided that they show what was to be shown. If
            none came after, nothing is known of an excess, and 0 is returned.
        decides: Given the first values in some order, what they decide; None: nothing yet.
    """
    if decided_at == len(values):
        return 0.0
    generator, mean = random.Random(0), statistics.fmean(values)
    orders = [values, *(generator.sample(values, len(values)) for _ in range(_ORDERS))]
    after = [
        statistics.fmean(order[decided_at:])
        for order in orders
        if decides(order[:decided_at]) and all(decides(order[:count]) is None for count in range(1, decided_at))
    ]
    return mean - statistics.fmean(after or [mean])
