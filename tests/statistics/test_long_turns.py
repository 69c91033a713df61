"""What turns add that are longer on one side alone, on events whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autoaccel.statistics.comparison import compare, compare_in_process, turns_log
from autoaccel.statistics.long_turns import LongTurns, RareEvents, long_turns, rarest_seen

Z = 2.24  # of 97.5 %


def turns_with(generator: np.random.Generator, chance: float, long: float, number: int) -> list[tuple[float, float]]:
    """Return turns whose candidate takes 0.8 of the baseline's time, but now and then as many times as long."""
    noise = np.exp(generator.normal(0, 0.03, (number, 2)))
    late = generator.uniform(size=number) < chance
    return [(one, long if slow else 0.8 * other) for (one, other), slow in zip(noise, late, strict=True)]


def test_the_ratio_is_that_of_the_means_where_one_side_has_a_rare_long_turn() -> None:
    """The middle of the turns said 1.25 where a run of the candidate takes 8 % longer than the baseline's."""
    turns = [(1.0, 0.8)] * 9 + [(1.0, 3.6)]
    assert math.exp(turns_log(turns)) == pytest.approx(1 / 1.08)
    assert compare([turns, turns]).speedup == compare_in_process(turns).speedup == pytest.approx(1 / 1.08)
    removed = [(other, one) for one, other in turns]
    assert compare([removed, removed]).speedup == pytest.approx(1.08)


def test_what_slows_both_sides_of_a_turn_changes_nothing() -> None:
    shared = [(1.0, 0.5)] * 6 + [(4.0, 2.0), (9.0, 4.5)]
    assert compare([shared, shared]).speedup == pytest.approx(2.0)
    assert long_turns([shared], [math.log(2.0)])[:2] == (RareEvents(), RareEvents())


def test_long_turns_of_all_pairs_count_together() -> None:
    """A long step that one of four pairs meets is a quarter of what that pair says."""
    calm, met = [(1.0, 1.0)] * 8, [(1.0, 1.0)] * 7 + [(1.0, 9.0)]
    assert compare([calm, calm, calm, met]).speedup == pytest.approx(32 / 40)


def test_intervals_cover_the_mean_of_rare_events_at_either_end() -> None:
    generator, truth = np.random.default_rng(0), 1 / (0.9 * 0.8 + 0.1 * 4.0)
    missed = [0, 0]
    for _ in range(1000):
        found = long_turns([turns := turns_with(generator, 0.1, 4.0, 40)], [math.log(1.25)])
        log = math.log(1.25) + found.excess
        missed[0] += log - found.below(Z) > math.log(truth)
        missed[1] += log + found.above(Z) < math.log(truth)
        assert len(turns) == 40
    assert max(missed) <= 0.02 * 1000  # 1.25 % at each end


def test_an_event_of_the_kind_that_the_other_side_shows_may_have_been_missed() -> None:
    seen = LongTurns(baseline=RareEvents(12.0, 48.0), shared=40.0)
    assert seen.below(Z) > LongTurns(RareEvents(12.0, 0.1), shared=40.0).below(Z)
    # Without any event Byar's upper end of their number is 4.37 where the exact one is 4.38.
    assert RareEvents().upper(Z, 4.0) == pytest.approx(4.0 * -math.log(0.0125), rel=0.01)
    assert RareEvents().upper(Z, 0.0) == RareEvents().lower(Z) == 0.0


def test_how_rare_long_steps_are_that_are_still_met_follows_from_the_steps() -> None:
    for steps in (30, 150, 3000):
        assert (1 - 1 / rarest_seen(steps)) ** steps == pytest.approx(0.05, abs=0.016)
