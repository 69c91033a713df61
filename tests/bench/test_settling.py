"""How far into their training pairs of processes look."""

from __future__ import annotations

import math

from autoaccel.bench.settling import Settling
from autoaccel.statistics.comparison import Pair
from autoaccel.statistics.turn_plan import plan_turns

CALM: list[Pair] = [(1.0, 1.0), (1.01, 1.0)] * 8
SETTLES: list[Pair] = [(1.0 + 0.3 * math.exp(-turn / 5), 1.0) for turn in range(16)]


def test_pairs_look_later_until_no_trend_is_seen() -> None:
    settling = Settling(plan_turns(0.05))
    assert settling.later_steps({}) == 0
    assert settling.take_in({}, CALM, True) == ""
    assert settling.take_in({}, SETTLES, True) == "look later"
    assert settling.later_steps({}) == 100
    assert settling.take_in({}, CALM, True) == ""
    assert settling.later_steps({}) == 100
    assert settling.later_steps({"other": 1}) == 0


def test_a_trend_that_is_seen_as_late_as_one_may_look_is_given_up() -> None:
    settling = Settling(plan_turns(0.05))
    told = [settling.take_in({}, SETTLES, True) for _ in range(3)]
    assert told == ["look later", "look later", "given up"]
    assert settling.later_steps({}) == 400
    # 100 steps of both processes take longer than a minute.
    assert Settling(plan_turns(1.0)).take_in({}, SETTLES, True) == "given up"


def test_disturbed_pairs_show_no_trend() -> None:
    assert Settling(plan_turns(0.05)).take_in({}, SETTLES, False) == ""
