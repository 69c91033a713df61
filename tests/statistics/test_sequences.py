"""Intervals that hold at every look, on values whose mean is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autoaccel.statistics.sequences import Scatter, believed_deviation, normal_radius, t_radius, t_radius_for

KNOWN = Scatter(0.08, 4.0)


@pytest.mark.parametrize("alpha", [0.05, 0.025, 0.2])
def test_the_mean_is_hardly_ever_left_out_at_any_look(alpha: float) -> None:
    generator = np.random.default_rng(1)
    left_out = 0
    for _ in range(600):
        values = generator.normal(0.3, 2.0, 40)
        left_out += any(
            abs(values[:count].mean() - 0.3) > t_radius(values[:count].tolist(), alpha) for count in range(2, 41)
        )
    assert left_out <= alpha * 600


def test_it_is_not_so_wide_as_to_say_nothing() -> None:
    values = np.random.default_rng(2).normal(0, 1, 12).tolist()
    fixed_in_advance = 2.2 * np.std(values, ddof=1) / math.sqrt(12)
    assert t_radius(values, 0.05) < 2.2 * fixed_in_advance


def test_it_scales_with_the_values_and_narrows_with_their_number() -> None:
    values = [0.9, 1.1, 1.0, 1.2, 0.8]
    assert t_radius([10 * value for value in values], 0.05) == pytest.approx(10 * t_radius(values, 0.05))
    assert t_radius(values * 4, 0.05) < 0.5 * t_radius(values, 0.05)
    assert t_radius(values, 0.01) > t_radius(values, 0.05)


def test_two_values_say_nothing_and_one_is_refused() -> None:
    assert t_radius([1.0, 1.1], 0.05) == math.inf
    with pytest.raises(ValueError, match="two or more"):
        t_radius([1.0], 0.05)


def test_equal_values_leave_no_doubt() -> None:
    assert t_radius([1.0, 1.0, 1.0], 0.05) == 0.0


def missed_share(scatters: np.ndarray, alpha: float = 0.05, looks: int = 20) -> float:
    """Return how often the mean is left out at any look, for values with each of these standard deviations."""
    generator = np.random.default_rng(4)
    missed = 0
    for scatter in scatters:
        values = generator.normal(0.3, scatter, looks)
        missed += any(
            abs(values[:count].mean() - 0.3) > t_radius(values[:count].tolist(), alpha, KNOWN)
            for count in range(2, looks + 1)
        )
    return missed / len(scatters)


def test_where_something_is_known_of_the_scatter_the_mean_is_hardly_ever_left_out() -> None:
    generator = np.random.default_rng(5)
    as_known = KNOWN.deviation * np.sqrt(KNOWN.degrees / generator.chisquare(KNOWN.degrees, 1000))
    assert missed_share(as_known) <= 0.05
    assert missed_share(np.full(500, 1.5 * KNOWN.deviation)) <= 0.05
    # Far out in the tail of what is known, few values are trusted too much, but by far not all errors are theirs.
    assert missed_share(np.full(500, 3 * KNOWN.deviation)) <= 0.12


def test_what_is_known_makes_few_values_say_something_and_many_say_what_they_say_alone() -> None:
    assert t_radius_for(2, 0.05, 0.05, KNOWN) < 0.3
    assert t_radius_for(3, 0.05, 0.05, KNOWN) < 0.65 * t_radius_for(3, 0.05, 0.05)
    assert t_radius_for(200, 0.3, 0.05, KNOWN) == pytest.approx(t_radius_for(200, 0.3, 0.05), rel=0.1)


def test_the_believed_deviation_lies_between_what_was_known_and_what_is_seen() -> None:
    assert believed_deviation(3, KNOWN.deviation, KNOWN) == pytest.approx(KNOWN.deviation)
    assert KNOWN.deviation < believed_deviation(3, 0.2, KNOWN) < 0.2
    assert believed_deviation(1000, 0.2, KNOWN) == pytest.approx(0.2, rel=0.01)


def test_with_a_known_deviation_the_mean_is_hardly_ever_left_out() -> None:
    generator = np.random.default_rng(3)
    left_out = 0
    for _ in range(600):
        values = generator.normal(0, 1, 60)
        means = values.cumsum() / np.arange(1, 61)
        left_out += any(abs(mean) > normal_radius(count, 1.0, 0.05) for count, mean in enumerate(means, start=1))
    assert left_out <= 0.05 * 600
    assert normal_radius(8, 1.0, 0.05) < 1.6 * 1.96 / math.sqrt(8)
