"""Turns of two processes on a machine that is played."""

from __future__ import annotations

import math
from typing import cast

import pytest

from autoaccel.launch.measuring import Measuring
from autoaccel.records.trial import Failure, Turn
from autoaccel.session.turns import TurnFailed, Turns, take_turns

STEP = 0.03


class Side:
    """A process whose turns take what is given, one after the other; then the last for ever."""

    def __init__(self, *seconds: float | None) -> None:
        self.seconds = list(seconds)
        self.turns: list[Turn] = []
        self.batch_factor = 1.0

    def take_turn(self, seconds: float, timeout_seconds: float) -> Turn | Failure:
        step = self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]
        if step is None:
            return Failure("crashed", "it does")
        turn = Turn((step,) * 4 if step else ())
        self.turns.append(turn)
        return turn


def taken(own: Side, other: Side, enough: int = 6, usual: tuple[float, ...] = (STEP,)) -> Turns | TurnFailed:
    return take_turns(
        cast("Measuring", own), cast("Measuring", other), 0.2, 100, usual, lambda pairs: len(pairs) >= enough, math.inf
    )


def test_undisturbed_turns_are_taken_until_they_are_enough() -> None:
    own, other = Side(STEP), Side(STEP / 2)
    turns = taken(own, other)
    assert isinstance(turns, Turns)
    assert turns.pairs == [(STEP, STEP / 2)] * 6
    assert turns.trusted and turns.disturbed == 0


def test_disturbed_turns_are_left_out_and_taken_again() -> None:
    own, other = Side(STEP, 9 * STEP, 9 * STEP, STEP), Side(STEP)
    turns = taken(own, other)
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
    own, other = Side(STEP), Side(STEP, STEP, None)
    turns = taken(own, other)
    assert isinstance(turns, TurnFailed)
    assert turns.who is cast("Measuring", other)
    assert turns.failure.message == "it does"


@pytest.mark.parametrize("first", ["own", "other"])
def test_who_begins_changes(first: str) -> None:
    order: list[str] = []

    class Noted(Side):
        def __init__(self, name: str) -> None:
            super().__init__(STEP)
            self.name = name

        def take_turn(self, seconds: float, timeout_seconds: float) -> Turn | Failure:
            order.append(self.name)
            return super().take_turn(seconds, timeout_seconds)

    taken(Noted("own"), Noted("other"))
    assert order[:4] == ["own", "other", "other", "own"]
    assert order.count(first) == 6
