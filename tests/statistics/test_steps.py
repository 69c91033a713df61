"""From raw step times to what a run pays per step."""

from __future__ import annotations

import pytest

from autoaccel.records.messages import Turn
from autoaccel.statistics.steps import settled_step_seconds, step_seconds_of_turns


def test_a_disturbed_turn_does_not_move_the_settled_time() -> None:
    turns = [Turn((0.02, 0.02, 0.02)), Turn((0.2, 0.3, 0.2)), Turn((0.02, 0.02, 0.02))]
    assert settled_step_seconds(turns, 100) == pytest.approx(0.02)


def test_bursts_of_loader_workers_are_averaged() -> None:
    # Two workers: one step waits for both batches, the next for none. The median of all steps would be wrong.
    turns = [Turn((0.07, 0.01, 0.07, 0.01)), Turn((0.01, 0.07, 0.01, 0.07))]
    assert settled_step_seconds(turns, 100) == pytest.approx(0.04)


def test_the_restart_of_an_epoch_is_spread_over_its_steps() -> None:
    turns = [Turn((0.01,) * 4), Turn((0.11, 0.01, 0.01, 0.01), (0,)), Turn((0.01,) * 4)]
    assert step_seconds_of_turns(turns, 20) == pytest.approx((0.015, 0.015, 0.015))
    assert step_seconds_of_turns(turns[:1], 20) == pytest.approx((0.01,))


def test_a_turn_of_first_steps_only_still_counts() -> None:
    assert step_seconds_of_turns([Turn((0.03, 0.03), (0, 1))], 1) == pytest.approx((0.03,))


def test_a_step_on_more_samples_counts_for_as_many_of_the_trainings_own() -> None:
    turns = [Turn((0.04,) * 4), Turn((0.14, 0.04, 0.04, 0.04), (0,)), Turn((0.04,) * 4)]
    # Four times the samples for four times the time; the restart is paid once an epoch whatever the batch.
    assert step_seconds_of_turns(turns, 20, batch_factor=4.0) == pytest.approx((0.015, 0.015, 0.015))


def test_an_incomplete_step_counts_for_the_samples_that_it_has() -> None:
    """Epochs of 64 and 6 samples were timed by the 6 alone, as if those were 64: speed that nobody has."""
    shares = (1.0, 6 / 64) * 2
    turns = [Turn((0.64, 0.06) * 2, (0, 2), shares), Turn((0.06, 0.64) * 2, (1, 3), shares[1:] + shares[:1])]
    assert step_seconds_of_turns(turns, 5, batch_factor=4.0) == pytest.approx((0.16, 0.16))
    # Where there are whole steps beside the first one, they tell.
    long = Turn((0.5, 0.16, 0.16, 0.1), (0,), (1.0, 1.0, 1.0, 0.3))
    assert step_seconds_of_turns([long], 34) == pytest.approx((0.16 + 0.34 / 34,))
