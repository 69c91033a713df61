"""The drop of a metric and its bound."""

from __future__ import annotations

import numpy as np
import pytest

from autoaccel.records.recipe import Constraint
from autoaccel.records.trial import Accuracy
from autoaccel.statistics.accuracy import compare_metric, confidence_of_look, metric_status

ONE_PERCENT = Constraint(0.01, True)


def judged(own: list[float], other: list[float], direction: str = "maximize", relative: bool = True) -> Accuracy:
    return compare_metric("m", direction, own, other, 1.0, Constraint(0.01, relative))  # type: ignore[arg-type]


def test_the_drop_is_paired_run_by_run() -> None:
    # The runs differ by 0.2 from seed to seed, the settings by exactly 0.01: pairing sees only the latter.
    accuracy = judged([0.7, 0.8, 0.9], [0.69, 0.79, 0.89], relative=False)
    assert accuracy.drop == pytest.approx(0.01)
    # The metric was never seen to move by less; of three runs that do not differ 63 % of all may.
    assert accuracy.drop_high == pytest.approx(0.0163, abs=1e-4)


def test_three_equal_drops_of_one_sample_may_be_chance() -> None:
    equal = judged([0.98, 0.98, 0.9755], [0.9777, 0.9777, 0.9733], relative=False)
    assert equal.drop == pytest.approx(0.0023, abs=1e-4)
    assert equal.drop + 0.0008 < equal.drop_high < equal.drop + 0.0015


def test_a_metric_that_never_moves_is_bounded_by_what_one_sample_can_move_it_by() -> None:
    """All seeds alike, at 1.0, gave a bound of no width: what had not moved three times could not move."""

    def bound(value: float, runs: int, samples: int | None) -> float:
        return compare_metric(
            "m", "maximize", [value] * runs, [value] * runs, 1.0, ONE_PERCENT, samples=samples
        ).drop_high

    assert bound(1.0, 3, 450) == pytest.approx(0.632 / 450, rel=0.01)
    assert bound(1.0, 6, 450) == pytest.approx(0.393 / 450, rel=0.01)
    assert bound(100.0, 3, 450) == bound(1.0, 3, 450)  # percentages
    # So few samples cannot show that no more than a percent is lost, nor can nobody knows how many.
    assert bound(1.0, 3, 40) > 0.01
    assert bound(1.0, 6, None) > 0.3


def test_the_drop_of_a_minimized_metric_is_its_rise() -> None:
    assert judged([2.0, 2.0], [2.2, 2.2], "minimize").drop == pytest.approx(0.1)
    assert judged([2.0, 2.0], [1.8, 1.8], "minimize").drop == pytest.approx(-0.1)


def test_a_relative_drop_is_a_share_of_the_baseline() -> None:
    assert judged([0.5, 0.5], [0.49, 0.49]).drop == pytest.approx(0.02)
    assert judged([0.5, 0.5], [0.49, 0.49], relative=False).drop == pytest.approx(0.01)


def test_the_bound_holds_as_often_as_it_says() -> None:
    generator = np.random.default_rng(1)
    held = 0
    for _ in range(1000):
        own = generator.normal(0.9, 0.02, 3)
        other = own - generator.normal(0.005, 0.003, 3)
        held += judged(list(own), list(other), relative=False).drop_high >= 0.005
    assert 930 <= held <= 970


def test_the_constraint_holds_up_to_its_bound() -> None:
    half_a_percent_worse = judged([1.0, 0.9999], [0.995, 0.9949])
    assert metric_status(half_a_percent_worse, Constraint(0.0053, True), 6) == "holds"
    assert metric_status(half_a_percent_worse, Constraint(0.004, True), 6) == "drops"


def test_what_more_runs_could_tell_stays_open_until_there_are_enough() -> None:
    scattered = judged([0.90, 0.92, 0.91], [0.91, 0.90, 0.915])
    assert metric_status(None, ONE_PERCENT, 3) == "open"
    assert metric_status(scattered, ONE_PERCENT, 4) == "open"
    assert metric_status(scattered, ONE_PERCENT, 3) == "drops"


def test_all_looks_together_err_no_more_than_one_would() -> None:
    generator = np.random.default_rng(3)
    passed = 0
    for _ in range(1000):
        # The metric drops by exactly what is allowed.
        drops = generator.normal(0.01, 0.004, 6)
        own = np.full(6, 0.9)
        for count in range(3, 7):
            bound = compare_metric(
                "m",
                "maximize",
                own[:count].tolist(),
                (own - drops)[:count].tolist(),
                1.0,
                Constraint(0.01, False),
                confidence_of_look(count, first=3, most=6),
            )
            if metric_status(bound, Constraint(0.01, False), 6) == "holds":
                passed += 1
                break
    assert passed <= 60


def test_one_run_says_nothing() -> None:
    with pytest.raises(ValueError, match="two or more paired runs"):
        judged([0.9], [0.9])
