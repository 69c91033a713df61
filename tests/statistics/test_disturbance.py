"""Which turns count."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from autoaccel.records.messages import Turn
from autoaccel.statistics.disturbance import undisturbed, usual_seconds


def test_the_usual_time_is_that_of_the_quiet_quarter() -> None:
    quiet, busy = [0.030, 0.031, 0.029, 0.030], [0.09, 0.1, 0.3, 0.08]
    assert 0.029 <= usual_seconds(quiet + busy) <= 0.032
    assert usual_seconds([0.03]) == 0.03


Steps = tuple[float, ...]


def counts(baseline: Sequence[Steps], other: Sequence[Steps], usual: float = 0.03) -> list[bool]:
    """Return which turns of these steps count."""
    both = list(zip(baseline, other, strict=True))
    means = [(statistics.fmean(mine), statistics.fmean(others)) for mine, others in both]
    return undisturbed([(Turn(mine), Turn(others)) for mine, others in both], means, usual)


CALM, LONG, SLOW = (0.03,) * 4, (0.03, 0.03, 0.3, 0.03), (0.09,) * 4


def test_turns_do_not_count_in_which_somebody_else_worked() -> None:
    assert counts([CALM, (0.044,) * 4, (0.046,) * 4, CALM], [CALM, CALM, (0.04,) * 4, CALM]) == [
        True,
        True,
        False,
        True,
    ]
    # A neighbour may slow a baseline of several threads alone, for longer than a turn.
    assert counts([CALM, SLOW, SLOW, CALM], [CALM] * 4) == [True, False, False, True]
    assert counts([SLOW] * 3, [CALM] * 3) == [False] * 3
    # He came and went within the turns before and after.
    assert counts([CALM, LONG, SLOW, SLOW, LONG, CALM], [CALM] * 6) == [True, False, False, False, False, True]


def test_a_long_step_or_turn_that_one_side_alone_has_counts() -> None:
    """A candidate that rids the baseline of its long steps was never found: they were taken for a neighbour's work."""
    assert counts([CALM, LONG, LONG, CALM], [CALM] * 4) == [True] * 4
    assert counts([CALM, SLOW, CALM], [CALM] * 3) == [True] * 3
    assert counts([CALM, CALM, CALM], [CALM, SLOW, SLOW]) == [True] * 3
    # Those of both sides that fall into the same turn are no neighbour's either.
    assert counts([CALM, LONG, CALM], [CALM, LONG, CALM]) == [True] * 3


def test_where_a_turn_is_a_step_two_turns_tell_whether_steps_are_slow_in_a_row() -> None:
    one_at_a_time, in_a_row = [(0.5,), (2.5,), (0.5,), (0.5,)], [(0.5,), (0.5,), (1.2,), (1.3,), (0.5,)]
    assert counts(one_at_a_time, one_at_a_time, usual=0.5) == [True] * 4
    assert counts(in_a_row, [(0.5,)] * 5, usual=0.5) == [True, True, False, False, True]
    assert counts([], []) == []
