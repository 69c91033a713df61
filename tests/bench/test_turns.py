"""Turns of two processes on a machine that is played."""

from __future__ import annotations

from typing import NamedTuple, cast

import pytest

from autoaccel.bench.turns import OwnFailed, TurnTaker
from autoaccel.records.messages import Failure, GiveTurn, Turn
from autoaccel.records.trial import Measurement
from autoaccel.search.instruments import Reading
from autoaccel.statistics.comparison import Pair
from autoaccel.statistics.turn_plan import plan_turns
from autoaccel.workers.measuring import Measuring

STEP = 0.03


class Side:
    """A process whose turns take what is given, one after the other; then the last for ever."""

    def __init__(self, *seconds: float | None) -> None:
        self.seconds = list(seconds)
        self.turns: list[Turn] = []
        self.finite_steps = 0
        self.diverged_steps: int | None = None
        self.batch_factor = 1.0

    @property
    def measurement(self) -> Measurement:
        return Measurement(1.0, (), tuple(self.turns))

    def take_turn(self, order: GiveTurn, timeout_seconds: float) -> Turn | Failure:
        step = self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]
        if step is None:
            return Failure("crashed", "it does")
        turn = Turn((step,) * 4 if step else ())
        self.turns.append(turn)
        return turn


class Turns(NamedTuple):
    """What was taken, and how much of it was disturbed."""

    pairs: list[Pair]
    trusted: bool
    disturbed: int


def taken(
    baseline: Side, other: Side, enough: int = 6, usual: tuple[float, ...] = (STEP,), step: float = STEP
) -> Turns | Failure | OwnFailed:
    both = cast("Measuring", baseline), cast("Measuring", other)
    taker = TurnTaker(plan_turns(step), 100, usual)
    reading = taker.take(*both, lambda pairs: len(pairs) >= enough)
    return Turns(reading.pairs, reading.trusted, taker.disturbed) if isinstance(reading, Reading) else reading


def test_undisturbed_turns_are_taken_until_they_are_enough() -> None:
    baseline, other = Side(STEP), Side(STEP / 2)
    turns = taken(baseline, other)
    assert isinstance(turns, Turns)
    assert turns.pairs == [(STEP, STEP / 2)] * 6
    assert turns.trusted and turns.disturbed == 0


def test_disturbed_turns_are_left_out_and_taken_again() -> None:
    baseline, other = Side(STEP, 9 * STEP, 9 * STEP, STEP), Side(STEP)
    turns = taken(baseline, other)
    assert isinstance(turns, Turns)
    assert turns.pairs == [(STEP, STEP)] * 6
    assert turns.trusted and turns.disturbed == 2


def test_a_candidate_that_is_slow_by_itself_is_not_excused() -> None:
    turns = taken(Side(STEP), Side(9 * STEP))
    assert isinstance(turns, Turns)
    assert turns.pairs == [(STEP, 9 * STEP)] * 6


def test_nothing_but_disturbance_is_not_trusted() -> None:
    turns = taken(Side(3 * STEP), Side(STEP), usual=(STEP,) * 40)
    assert isinstance(turns, Turns)
    assert not turns.trusted
    assert turns.disturbed == len(turns.pairs) >= 12


def test_a_machine_that_has_become_slower_for_good_is_not_disturbed_for_ever() -> None:
    turns = taken(Side(3 * STEP), Side(3 * STEP), usual=(STEP,) * 100 + (3 * STEP,) * 35)
    assert isinstance(turns, Turns)
    assert turns.trusted and turns.disturbed == 0


def test_a_training_that_is_over_ends_its_turns() -> None:
    turns = taken(Side(STEP), Side(STEP, STEP, STEP, STEP, STEP, 0.0), enough=100)
    assert isinstance(turns, Turns)
    assert len(turns.pairs) == 5
    assert turns.trusted


def test_who_fails_is_told() -> None:
    baseline, other = Side(STEP), Side(STEP, STEP, None)
    turns = taken(baseline, other)
    assert isinstance(turns, Failure)
    assert turns.message == "it does"
    assert taken(Side(STEP, None), Side(STEP)) == OwnFailed(turns)


@pytest.mark.parametrize("first", ["own", "other"])
def test_who_begins_changes(first: str) -> None:
    began: list[str] = []

    class Noted(Side):
        def __init__(self, name: str) -> None:
            super().__init__(STEP)
            self.name = name

        def take_turn(self, order: GiveTurn, timeout_seconds: float) -> Turn | Failure:
            began.append(self.name)
            return super().take_turn(order, timeout_seconds)

    taken(Noted("own"), Noted("other"))
    assert began[:4] == ["own", "other", "other", "own"]
    assert began.count(first) == 6


LONG = 2.0


def taken_long(baseline: Side, other: Side, enough: int = 2, usual: tuple[float, ...] = (LONG, LONG)) -> Turns:
    turns = taken(baseline, other, enough, usual, step=LONG)
    assert isinstance(turns, Turns)
    return turns


def test_two_turns_of_long_steps_are_enough() -> None:
    turns = taken_long(Side(LONG), Side(LONG / 2))
    assert turns.pairs == [(LONG, LONG / 2)] * 2
    assert turns.trusted


def test_a_disturbed_turn_of_a_long_step_is_taken_again() -> None:
    slow = (LONG, LONG, 4 * LONG, 4 * LONG, LONG)  # turns are taken in twos
    turns = taken_long(Side(*slow), Side(LONG), enough=3)
    assert turns.pairs == [(LONG, LONG)] * 4
    assert turns.trusted and turns.disturbed == 2


def test_disturbed_turns_alone_do_not_make_the_undisturbed_ones_strange() -> None:
    """The first two turns of all, by which others are told, may have been disturbed themselves."""
    turns = taken_long(Side(LONG), Side(LONG), usual=(4 * LONG, 4 * LONG))
    assert turns.pairs == [(LONG, LONG)] * 2
    slow = (4 * LONG, 4 * LONG, LONG)
    later = taken_long(Side(*slow), Side(LONG), usual=(4 * LONG, 4 * LONG, LONG, LONG))
    assert later.disturbed == 2


def test_nothing_but_disturbed_long_steps_is_given_up_after_six_turns() -> None:
    turns = taken_long(Side(4 * LONG), Side(LONG), usual=(LONG,) * 40)
    assert not turns.trusted
    assert turns.disturbed == len(turns.pairs) == 6


def test_a_training_of_a_few_long_steps_may_end_within_its_turns() -> None:
    turns = taken_long(Side(LONG), Side(LONG, LONG, LONG, 0.0), enough=100)
    assert len(turns.pairs) == 3
    assert turns.trusted


class Diverging(Side):
    """A process whose loss is no number from one turn on."""

    def __init__(self, turn: int) -> None:
        super().__init__(STEP)
        self.finite_turns = turn

    def take_turn(self, order: GiveTurn, timeout_seconds: float) -> Turn | Failure:
        turn = super().take_turn(order, timeout_seconds)
        steps = 4 * len(self.turns)
        if len(self.turns) <= self.finite_turns:
            self.finite_steps = steps
        elif self.diverged_steps is None:
            self.diverged_steps = steps
        return turn


@pytest.mark.parametrize(
    ("own", "other", "fails"),
    [
        (99, 2, True),
        (2, 2, False),
        (1, 2, False),
        (4, 2, True),  # its own loss was still finite after as many steps
        (99, 99, False),
    ],
)
def test_a_candidate_whose_loss_is_no_number_has_failed_unless_the_baseline_s_is_not_by_then(
    own: int, other: int, fails: bool
) -> None:
    """A baseline that had diverged at any time excused every candidate."""
    turns = taken(Diverging(own), Diverging(other))
    if not fails:
        assert isinstance(turns, Turns)
        return
    assert isinstance(turns, Failure)
    assert turns.kind == "diverged"
    assert turns.message == "its loss is no longer a finite number after 12 steps"
