"""Simulated trainings that are tuned while they run are what they are said to be."""

from __future__ import annotations

import random

import pytest

from benchmarks.page.claims import replays
from benchmarks.studies.replays import CASES, OWN, Case, simulated, train


@pytest.mark.parametrize("name", CASES)
def test_steps_take_what_the_case_says(name: str) -> None:
    case = CASES[name]
    trained = train(case._replace(factors={}), 3)
    machine = case.machine(random.Random(5))
    expected = case.step * sum(machine(number) for number in range(case.steps))
    assert trained.plain == pytest.approx(expected, rel=0.35)  # a walk's own mean wanders
    assert trained.fastest == trained.plain


def test_a_row_tells_what_was_kept_and_lost() -> None:
    helps = simulated(CASES["one of 1.25x"], 3)
    assert helps["found_share"] == 1.0
    assert 0.6 < helps["gained_share"] <= 1.0
    assert helps["lost_share"] < -0.1
    null = simulated(Case(), 3)
    assert (null["kept_share"], null["gained_share"]) == (0.0, None)
    assert abs(null["lost_share"]) < 0.02
    assert train(Case(), 0).best == OWN
    page = replays({"one": helps, "none": null})
    assert len(page) == 4
    assert "100.00%" in page[2]
