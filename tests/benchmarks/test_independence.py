"""A kept baseline's luck is found where it is, and only there."""

from __future__ import annotations

import math
import random

import pytest

from benchmarks.page.claims import independence
from benchmarks.studies.independence import Reading, summed_up


def blocks_of(kept_luck: float, fresh_luck: float, rest: float, blocks: int = 400) -> list[list[Reading]]:
    """Return blocks of four pairs whose processes scatter by this much."""
    generator = random.Random(0)
    found = []
    for _ in range(blocks):
        shared = generator.gauss(0.0, kept_luck)
        candidates = [generator.gauss(0.5, rest) for _ in range(4)]
        found.append([Reading(one + generator.gauss(0.0, fresh_luck), one + shared, 4.0, 1.5) for one in candidates])
    return found


def test_the_luck_that_pairs_share_is_told_from_what_they_scatter_by() -> None:
    found = summed_up(blocks_of(kept_luck=0.05, fresh_luck=0.05, rest=0.03))
    assert found["kept_luck"] == pytest.approx(0.05, rel=0.1)
    assert found["kept_deviation"] == pytest.approx(0.03, rel=0.1)
    assert found["fresh_deviation"] == pytest.approx(math.hypot(0.05, 0.03), rel=0.1)
    assert found["error_of_three"]["kept"] > 2 * found["claimed_of_three"]["kept"]
    assert found["error_of_three"]["fresh"] == found["claimed_of_three"]["fresh"]


def test_where_baselines_are_all_alike_nothing_is_shared() -> None:
    found = summed_up(blocks_of(kept_luck=0.0, fresh_luck=0.0, rest=0.05))
    assert found["kept_luck"] < 0.005
    assert found["kept_deviation"] == pytest.approx(found["fresh_deviation"])


def test_a_kept_baseline_saves_its_start() -> None:
    seconds = summed_up(blocks_of(0.01, 0.01, 0.01, blocks=2))["seconds_of_pair"]
    assert seconds["fresh"] == pytest.approx(4.0 + 2 * 1.5)
    assert seconds["kept"] == pytest.approx(2.0 + 2 * 1.5)


def test_what_was_found_has_its_table() -> None:
    found = {**summed_up(blocks_of(0.05, 0.05, 0.03, blocks=2)), "step_seconds": 1.6}
    line = next(line for line in independence({"long_gpt": found}) if line.startswith("| long_gpt"))
    assert line.startswith("| long_gpt | 1.6 s | ") and line.endswith(" | 7.0 | 5.0 |")
    assert line.count("|") == 10
