"""Student's t distribution for whole degrees of freedom, without a dependency on scipy."""

from __future__ import annotations

import math


def t_cdf(t: float, degrees: int) -> float:
    """Return P(T <= t). The finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan2(t, math.sqrt(degrees))
    sine, cosine_squared = math.sin(angle), math.cos(angle) ** 2
    if degrees % 2:
        term, total = math.cos(angle), 0.0
        for k in range(1, degrees // 2 + 1):
            total += term
            term *= cosine_squared * 2 * k / (2 * k + 1)
        inside = 2 / math.pi * (angle + sine * total)
    else:
        term, total = 1.0, 0.0
        for k in range(1, degrees // 2 + 1):
            total += term
            term *= cosine_squared * (2 * k - 1) / (2 * k)
        inside = sine * total
    return 0.5 + inside / 2


def t_quantile(probability: float, degrees: int) -> float:
    """Return t with P(T <= t) = probability, to ten digits.

    Raises:
        ValueError: If the probability is not between 0 and 1 (both excluded) or degrees is below 1.
    """
    if not 0 < probability < 1 or degrees < 1:
        raise ValueError(f"0 < probability < 1 and degrees >= 1 must hold, but got {probability} and {degrees}")
    if probability < 0.5:
        return -t_quantile(1 - probability, degrees)
    low, high = 0.0, 1.0
    while t_cdf(high, degrees) < probability:
        high *= 2
    while high - low > 1e-10 * max(1.0, high):
        middle = (low + high) / 2
        if t_cdf(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2
