"""What makes a step, and which gaps are none: decisions on lists, without any training."""

from __future__ import annotations

import pytest

from autoaccel.errors import BadRequestError
from autoaccel.runtime.script.cycle import Cycle, Gap, last_training, period_of


@pytest.mark.parametrize(
    ("calls", "period"),
    [
        ([0, 0], (0,)),
        ([0] * 24, (0,)),
        ([0, 1, 0, 1], (0, 1)),
        ([0, 1, 0, 1, 0], (0, 1)),  # the last repetition has begun
        ([0, 0, 0, 1, 0, 0, 0, 1, 0, 0], (0, 0, 0, 1)),  # three critics and a generator
        ([0, 1, 2, 1, 0, 1, 2, 1], (0, 1, 2, 1)),
    ],
)
def test_the_shortest_sequence_that_repeats_is_a_step(calls: list[int], period: tuple[int, ...]) -> None:
    assert period_of(calls) == period


@pytest.mark.parametrize("calls", [[], [0], [0, 1], [0, 1, 0], [0, 0, 1], [0, 0, 0, 1], [0, 1, 0, 0, 1, 1]])
def test_what_was_not_seen_twice_is_no_step(calls: list[int]) -> None:
    assert period_of(calls) is None


@pytest.mark.parametrize(
    ("calls", "begins"),
    [
        ([0] * 3 + [1] * 8, 3),
        ([0, 1] * 3 + [2] * 8, 6),
        ([0] * 5 + [1] * 8 + [2] * 8, 13),
        ([0] * 5 + [1] * 8 + [2, 3] * 4, 13),
        ([0] * 5 + [1], 0),  # a generator after its critics
        ([0] * 5 + [1] * 8 + [0], 0),
        ([0] * 9, 0),
    ],
)
def test_another_training_has_other_optimizers(calls: list[int], begins: int) -> None:
    assert last_training(calls, at_least=8) == begins


def test_a_step_is_complete_with_its_last_update() -> None:
    cycle = Cycle((0, 0, 1))
    assert [cycle.is_complete_after(one) for one in (0, 0, 1, 0, 0, 1)] == [False, False, True] * 2


def test_a_broken_order_is_named() -> None:
    cycle = Cycle((0, 1))
    cycle.is_complete_after(0)
    with pytest.raises(BadRequestError, match="1, 2, but number 1 was called instead of number 2"):
        cycle.is_complete_after(0)


def test_a_new_start_forgets_half_a_step() -> None:
    cycle = Cycle((0, 1))
    cycle.is_complete_after(0)
    cycle.begin_anew()
    assert [cycle.is_complete_after(one) for one in (0, 1)] == [False, True]


def test_an_evaluation_makes_its_gap_no_step_and_the_next_one_a_step_again() -> None:
    gap = Gap()
    assert gap.end() == (True, False)
    gap.evaluated("loader")
    assert gap.end() == (False, False)
    assert gap.end() == (True, False)


def test_what_is_done_beside_every_step_belongs_to_it() -> None:
    gap = Gap()
    found = []
    for _ in range(7):
        gap.evaluated("loader")
        found.append(gap.end()[0])
    assert found == [False] * 4 + [True] * 3
    assert gap.end()[0]
    gap.evaluated("loader")
    assert not gap.end()[0]


def test_an_epoch_that_begins_after_an_evaluation_starts_the_clock_anew() -> None:
    gap = Gap()
    gap.evaluated("loader")
    assert gap.began_epoch()
    assert gap.end() == (True, True)
    assert not gap.began_epoch()  # nothing else was done: the time before it belongs to the step
    assert gap.end() == (True, True)


def test_an_evaluation_after_the_epoch_began_still_counts() -> None:
    gap = Gap()
    gap.began_epoch()
    gap.evaluated("loader")
    assert gap.end()[0] is False


def test_an_evaluation_now_and_then_is_told_from_what_is_done_beside_every_step() -> None:
    gap = Gap()
    found = []
    for step in range(20):
        gap.evaluated("save")
        if step % 10 == 9:
            gap.evaluated("model")
        found.append(gap.end()[0])
    assert [step for step, counts in enumerate(found) if not counts] == [0, 1, 2, 3, 9, 19]


def test_what_is_done_beside_every_step_is_still_where_an_epoch_begins_between() -> None:
    gap = Gap()
    for _ in range(6):
        gap.evaluated("save")
        gap.end()
    gap.evaluated("save")
    assert not gap.began_epoch()  # the checkpoint belongs to the step that begins
    assert gap.end() == (True, True)
    gap.evaluated("save")
    assert gap.end() == (True, False)
