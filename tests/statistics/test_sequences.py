"""Intervals that hold at every look, on values whose mean is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autoaccel.statistics.sequences import normal_radius, t_radius


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


def test_with_a_known_deviation_the_mean_is_hardly_ever_left_out() -> None:
    generator = np.random.default_rng(3)
    left_out = 0
    for _ in range(600):
        values = generator.normal(0, 1, 60)
        means = values.cumsum() / np.arange(1, 61)
        left_out += any(abs(mean) > normal_radius(count, 1.0, 0.05) for count, mean in enumerate(means, start=1))
    assert left_out <= 0.05 * 600
    assert normal_radius(8, 1.0, 0.05) < 1.6 * 1.96 / math.sqrt(8)
