"""How often to repeat what, held against simulated measurements."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from autoaccel.statistics.repetitions import best_repetitions, deviation_of_differences, successive_differences


def test_differences_tell_the_deviation_in_spite_of_a_drift_and_disturbances() -> None:
    generator = random.Random(0)
    drifting = [generator.gauss(0.001 * number, 0.05) for number in range(2000)]
    disturbed = [value + (2.0 if number % 20 == 0 else 0.0) for number, value in enumerate(drifting)]
    assert statistics.stdev(disturbed) > 0.4
    assert deviation_of_differences(successive_differences(drifting)) == pytest.approx(0.05, rel=0.05)
    assert deviation_of_differences(successive_differences(disturbed)) == pytest.approx(0.05, rel=0.25)


def test_one_value_has_no_difference() -> None:
    assert successive_differences([1.0]) == []
    assert successive_differences([1.0, 3.0, 2.0]) == [2.0, 1.0]


@pytest.mark.parametrize(
    ("start", "turn", "between", "within"), [(1.6, 0.5, 0.03, 0.12), (8.0, 3.0, 0.05, 0.05), (20.0, 0.5, 0.1, 0.2)]
)
def test_no_other_number_of_repetitions_is_more_exact_in_the_same_time(
    start: float, turn: float, between: float, within: float
) -> None:
    def variance_for_time(count: float) -> float:
        return (between**2 + within**2 / count) * (start + count * turn)

    best = best_repetitions(start, turn, between, within)
    assert all(variance_for_time(best) <= variance_for_time(best * math.exp(off)) for off in (-0.5, -0.1, 0.1, 0.5))
