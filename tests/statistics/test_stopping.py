"""What the pairs that decided read too high."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import pytest

from autoaccel.statistics.stopping import stopping_excess


def above(least: float) -> Callable[[Sequence[float]], bool | None]:
    """Return a rule that decides as soon as the mean of the values is above this."""
    return lambda values: True if statistics.fmean(values) > least else None


def test_nothing_is_too_high_where_any_order_would_have_decided() -> None:
    assert stopping_excess([0.4, 0.5, 0.45, 0.42], 1, above(0.0)) == pytest.approx(0.0, abs=0.01)


def test_the_one_that_decided_does_not_count_where_no_other_could_have() -> None:
    # Only the first is above 1, so that in every order that decides at once it comes first.
    assert stopping_excess([2.0, 0.5, 0.6, 0.7], 1, above(1.0)) == pytest.approx(0.95 - 0.6)


def test_nothing_is_known_where_nothing_came_after() -> None:
    assert stopping_excess([0.1, 0.2, 0.3], 3, above(0.15)) == 0.0
