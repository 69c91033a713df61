"""Whether a ratio that still changes is told from one that scatters."""

from __future__ import annotations

import numpy as np
import pytest

from autoaccel.statistics.trend import has_trend


def pairs_of(generator: np.random.Generator, pairs: int, change: float, scatter: float = 0.05) -> list[list[float]]:
    """Return log ratios of 16 turns of each pair, which change by so much with time, exponentially."""
    fading = change * np.exp(-np.arange(16) / 5)
    return [(generator.normal(0, 0.1) + fading + generator.normal(0, scatter, 16)).tolist() for _ in range(pairs)]


@pytest.mark.parametrize("pairs", [1, 2, 8])
def test_what_only_scatters_hardly_ever_seems_to_change(pairs: int) -> None:
    generator = np.random.default_rng(pairs)
    assert sum(has_trend(pairs_of(generator, pairs, 0.0)) for _ in range(2000)) <= 6


@pytest.mark.parametrize("change", [-0.3, 0.3])
def test_either_side_that_settles_is_seen_within_two_pairs(change: float) -> None:
    generator = np.random.default_rng(0)
    assert sum(has_trend(pairs_of(generator, 2, change)) for _ in range(200)) >= 196


def test_bursts_and_changes_too_small_to_matter_are_no_trend() -> None:
    burst = [0.0] * 7 + [0.8, 0.9] + [0.0] * 7
    assert not has_trend([burst] * 4)
    assert not has_trend([[0.001 * turn for turn in range(16)]] * 8)
    assert not has_trend([[0.0] * 16, [0.1]]) and not has_trend([])
