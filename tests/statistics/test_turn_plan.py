"""Turns are as long, and as many, as they must be."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from autoaccel.statistics.turn_plan import TURNS, TurnScatter, pair_seconds, plan_turns, trial_seconds, turns_worth


def test_a_turn_of_short_steps_holds_several_after_one_that_does_not_count() -> None:
    order = plan_turns(0.02).order
    assert (order.seconds, order.min_steps, order.uncounted_steps) == (0.2, 3, 1)
    assert plan_turns(0.1).order.seconds == pytest.approx(0.4)
    assert plan_turns(0.02).turn_seconds() == pytest.approx(0.22)


@pytest.mark.parametrize("step", [0.3, 1.6, 5.0])
def test_a_turn_of_a_long_step_is_that_step(step: float) -> None:
    plan = plan_turns(step)
    assert (plan.order.min_steps, plan.order.uncounted_steps) == (1, 0)
    assert plan.order.seconds <= step
    assert plan.turn_seconds() == pytest.approx(step)
    assert plan.min_turns == plan.turns_alone == 2


def test_short_steps_beside_long_ones_are_taken_several_at_a_time() -> None:
    """One of 10 ms would be measured with caches that the other process has emptied."""
    assert plan_turns(0.4).turn_seconds(speedup=40.0) >= 0.3


def test_on_an_accelerator_a_step_goes_before() -> None:
    """Its batch would be loaded while the device has nothing to do, as it never is in the user's own loop."""
    assert plan_turns(1.0, "cuda").order.uncounted_steps == 1
    assert plan_turns(1.0, "cuda").turn_seconds() == pytest.approx(2.0)


def test_small_trainings_have_as_many_turns_as_ever_and_long_steps_few() -> None:
    digits = plan_turns(0.05)
    assert turns_worth(digits, start_seconds=3.0, deviation=digits.usual_deviation) == TURNS
    long = plan_turns(2.7)
    assert turns_worth(long, start_seconds=12.0, deviation=long.usual_deviation, speedup=3.0) == 4
    assert turns_worth(long, start_seconds=12.0, deviation=0.02, speedup=3.0) == 2


@pytest.mark.parametrize("step", [0.001, 0.05, 0.2, 0.4, 2.0, 10.0])
@pytest.mark.parametrize("deviation", [0.001, 0.05, 0.5])
def test_the_number_of_turns_is_even_and_within_its_limits(step: float, deviation: float) -> None:
    plan = plan_turns(step)
    turns = turns_worth(plan, 5.0, deviation)
    assert turns % 2 == 0  # who begins changes each time
    assert plan.min_turns <= turns <= TURNS


def test_scatter_is_what_is_usual_until_the_run_has_shown_its_own() -> None:
    generator = random.Random(0)
    scatter = TurnScatter(0.06)
    scatter.learn([0.5, 0.5])
    assert scatter.deviation == 0.06
    for level in (0.0, 1.0, -1.0) * 20:  # trials differ in what they show; their turns do not
        scatter.learn([generator.gauss(level, 0.02) for _ in range(4)])
    assert scatter.deviation == pytest.approx(0.02, rel=0.3)


def test_a_single_turn_tells_nothing_of_the_scatter() -> None:
    scatter = TurnScatter(0.06)
    for _ in range(20):
        scatter.learn([0.3])
    assert scatter.deviation == 0.06


def test_a_pair_gets_ready_twice_and_a_trial_once() -> None:
    plan = plan_turns(2.0)
    assert trial_seconds(plan, ready_seconds=5.0, turns=2) == pytest.approx(5.0 + 2 * (2.0 + 2.0))
    assert pair_seconds(plan, ready_seconds=5.0, turns=2) == pytest.approx(10.0 + 2 * (2.0 + 2.0))
    assert pair_seconds(plan, ready_seconds=5.0, turns=2, speedup=2.0) == pytest.approx(10.0 + 2 * (2.0 + 1.0))


def test_pairs_of_two_to_four_long_turns_hardly_scatter_more_than_their_processes() -> None:
    """What the number of turns is chosen for: a proof of many pairs is about as sharp as with eight turns each."""
    generator, between = random.Random(0), 0.06
    plan = plan_turns(2.0)
    within = plan.usual_deviation
    turns = turns_worth(plan, 10.0, within)
    means = [
        statistics.fmean(generator.gauss(luck, within) for _ in range(turns))
        for luck in (generator.gauss(0.0, between) for _ in range(4000))
    ]
    assert statistics.stdev(means) < 1.2 * math.hypot(between, within / math.sqrt(TURNS))
