"""Simulated processes have the mean that they are said to have, and a proof of them is one of the project's own."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from benchmarks.page.claims import means
from benchmarks.studies.means.cases import CASES
from benchmarks.studies.means.measure import prove, simulated
from benchmarks.studies.means.processes import Computer, Neighbour, Process, Side


@pytest.mark.parametrize(
    "side",
    [
        Side(0.8, every=10, long=4.5),
        Side(1.0, every=25, long=11.0, at_random=True),
        Side(1.0, settling=0.3, settling_steps=20.0),
        Side(0.8, settling=-0.4, settling_steps=50.0),
    ],
)
def test_a_side_has_the_mean_that_is_taken_for_the_truth(side: Side) -> None:
    process = Process(side, 1.0, Computer(random.Random(0)), is_candidate=False)
    steps = [process.step() for _ in range(60_000)]
    assert statistics.fmean(steps) == pytest.approx(side.mean, rel=0.02)


def test_a_neighbour_slows_whoever_runs_and_costs_its_share_of_the_time() -> None:
    computer = Computer(random.Random(0), Neighbour(1.0, 2.0, 3.0, candidate_factor=1.0))
    for is_candidate, factor in ((False, 3.0), (True, 1.0)):
        seconds = math.fsum(computer.run(0.05, is_candidate) for _ in range(40_000))
        # While it is busy, a third of the time, work goes on at a part of its speed.
        assert 0.05 * 40_000 / seconds == pytest.approx(2 / 3 + 1 / 3 / factor, rel=0.02)


def test_proofs_of_the_same_case_are_the_same_again() -> None:
    case = CASES["true 1.2, luck 0.04"]
    (one, spent), (again, spent_again) = prove(case, 3), prove(case, 3)
    assert (one.comparison, one.result, spent) == (again.comparison, again.result, spent_again)


def test_a_large_gain_is_proven_and_no_gain_is_not() -> None:
    gain, none = (simulated(CASES[name], 20) for name in ("true 2.0, luck 0.04", "null, luck 0.04"))
    assert (gain["proven"], none["proven"]) == (20, 0)
    assert gain["covered_share"] == 1.0 and abs(gain["mean_error"]) < 0.03


@pytest.mark.parametrize(
    "name",
    [
        "0.8, every 10th 4.5, 0.5 s",
        "0.8, every 40th 20",
        "baseline settles over 20 steps",
        "null, every 10th x5 on both",
        "null, hour 0.08",
        "null, the system does as much, hour 0.08",
    ],
)
def test_what_makes_no_run_shorter_is_not_proven(name: str) -> None:
    found = simulated(CASES[name], 25)
    assert found["proven"] <= 1
    assert found["covered_share"] >= 0.88


@pytest.mark.parametrize("name", ["removes every 10th 5", "2x, every 20th +4, 0.5 s"])
def test_what_removes_long_steps_is_found_with_the_ratio_of_means(name: str) -> None:
    found = simulated(CASES[name], 15)
    assert found["proven"] >= 14
    assert found["covered_share"] >= 0.9 and abs(found["mean_error"]) < 0.05


def test_what_the_system_no_longer_does_is_proven_where_the_clock_alone_would_show_nothing() -> None:
    by_system, by_clock = (
        simulated(CASES[name], 15) for name in ("true 1.25 by the system, hour 0.06", "true 1.2, luck 0.03, hour 0.06")
    )
    assert by_system["proven"] >= 12 > by_clock["proven"]
    assert by_system["covered_share"] >= 0.9


def test_the_table_says_what_no_proof_can_see() -> None:
    name = "candidate slows down over 2,000 steps"
    lines = means({name: simulated(CASES[name], 2)})
    assert lines[2].startswith(f"| {name} (no proof of minutes can see it) | 0.89 |")
