"""Which turns count."""

from __future__ import annotations

from autoaccel.statistics.disturbance import undisturbed, usual_seconds


def test_the_usual_time_is_that_of_the_quiet_quarter() -> None:
    quiet, busy = [0.030, 0.031, 0.029, 0.030], [0.09, 0.1, 0.3, 0.08]
    assert 0.029 <= usual_seconds(quiet + busy) <= 0.032
    assert usual_seconds([0.03]) == 0.03


def test_a_turn_counts_unless_the_baseline_itself_was_slow() -> None:
    assert undisturbed([0.030, 0.044, 0.046, 0.3], usual=0.030) == [True, True, False, False]
