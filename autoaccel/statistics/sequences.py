"""Intervals that stay true however often one looks while the data come in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

_PRECISION = 0.15
"""Weight of the mixture over the mean in `t_radius`: close to the narrowest intervals for two to ten values at 95 %
and above, where the scatter is known as `comparison.PAIR_SCATTER` knows it."""


class Scatter(NamedTuple):
    """What is known of a standard deviation before any value is seen.

    Its square has a scaled inverse chi-squared distribution, as if `degrees` earlier values had shown this deviation.
    With few degrees its upper tail is heavy: 5 % of the deviations are more than 2.4 times the typical one with four.
    """

    deviation: float
    degrees: float


NOTHING_KNOWN = Scatter(0.0, 0.0)
"""The values alone tell their scatter, as in Student's t."""


def t_radius(values: Sequence[float], alpha: float, known: Scatter = NOTHING_KNOWN) -> float:
    """Return the half width of an anytime-valid confidence interval for the mean of normal values.

    With probability 1 - alpha the mean lies within this distance of the values' mean at *every* number of values
    looked at, so that one may stop as soon as the interval says enough. The test martingale is a ratio of two marginal
    likelihoods, with a normal mixture over the mean above and one over the scale in both. Where nothing is known of the
    scale its mixture is the right Haar measure: Wang and Ramdas, "Anytime-valid t-tests and confidence sequences for
    Gaussian means with unknown variance" (arXiv:2310.03722, after Lai 1976), infinite for two values. Where something
    is known it is that distribution, conjugate, so that the formula stays the same with its degrees added; the
    probability is then that over scales so distributed. Should the true scale lie in the far tail, early looks miss
    more often, and later ones, in which the values outweigh what was known, do not:
    `benchmarks/studies/scatter.py` says how often.

    Raises:
        ValueError: If there are fewer than two values.
    """
    if len(values) < 2:
        raise ValueError(f"two or more values must be given, but got {len(values)}")
    return t_radius_for(len(values), deviation_of(values), alpha, known)


def deviation_of(values: Sequence[float]) -> float:
    """Return the standard deviation of at least two values; the statistics module's is exact and 20 times as slow."""
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def believed_deviation(count: int, deviation: float, known: Scatter) -> float:
    """Return the standard deviation that `count` values and what was known before suggest together."""
    squares = (count - 1) * deviation**2 + known.degrees * known.deviation**2
    return math.sqrt(squares / (count - 1 + known.degrees))


def learned(known: Scatter, count: int, deviation: float) -> Scatter:
    """Return what is known of a scatter once `count` values have shown this standard deviation."""
    return Scatter(believed_deviation(count, deviation, known), known.degrees + count - 1)


def t_radius_for(count: int, deviation: float, alpha: float, known: Scatter = NOTHING_KNOWN) -> float:
    """Return the `t_radius` of `count` values, at least two, with this sample standard deviation."""
    # Without knowledge of the scale, three values would say nothing above about alpha.
    precision = min(_PRECISION, alpha) if known.degrees == 0 else _PRECISION
    weight = count + known.degrees
    growth = ((count + precision) / (precision * alpha**2)) ** (1 / weight)
    shrunk = growth * precision / (count + precision)
    if shrunk >= 1:
        return math.inf
    squares = (count - 1) * deviation**2 + known.degrees * known.deviation**2
    return math.sqrt(squares * (growth - 1) / (count * (1 - shrunk)))


def normal_radius(count: int, deviation: float, alpha: float, expected: int = 8) -> float:
    """Return the half width of a confidence interval for a mean that holds at every number of values looked at.

    The normal mixture boundary: Robbins, Annals of Mathematical Statistics 1970; Howard et al., Annals of Statistics
    2021, proposition 5. The deviation counts as known, which makes it approximate for few values; it decides when to
    stop a trial, never what may be claimed.

    Args:
        count: Values so far.
        deviation: Standard deviation of one value.
        alpha: Probability that the mean is ever outside.
        expected: Number of values at which the interval is to be narrowest.
    """
    # Rho squared close to the optimum for `expected` values, ibid., equation 3.7, to first order.
    precision = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha) + 1)) / expected
    scale = count * precision + 1
    return deviation * math.sqrt(scale / (count**2 * precision) * math.log(scale / alpha**2))
