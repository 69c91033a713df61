"""When pairs of processes decide that settings are faster."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from autoaccel.statistics.comparison import PROCESS_DEVIATION, Pair
from autoaccel.statistics.deciding import (
    FURTHER_PAIRS,
    MAX_PAIRS,
    MIN_PAIRS,
    SpeedRule,
    decided_speedup,
    deciding_pairs,
    expected_pairs,
    likely_pairs,
)

RULE = SpeedRule(error=0.025, min_speedup=1.02)


def pairs_of(*speedups: float) -> list[list[Pair]]:
    return [[(speedup, 1.0)] * 4 for speedup in speedups]


def test_two_pairs_decide_on_a_large_gain_and_are_enough() -> None:
    pairs = pairs_of(2.9, 3.1)
    assert RULE.decide(pairs[:1]) is None
    assert RULE.decide(pairs) is True
    assert RULE.missing_pairs(pairs, decided_at=2) == 0
    assert RULE.conclude(pairs, decided_at=2).low > 2.0


def test_a_close_decision_is_confirmed_by_pairs_that_did_not_make_it() -> None:
    pairs = pairs_of(1.26, 1.25, 1.27)
    assert RULE.decide(pairs[:2]) is None
    assert RULE.decide(pairs) is True
    assert RULE.missing_pairs(pairs, decided_at=3) > 0
    assert RULE.missing_pairs(pairs_of(*[1.26] * (2 + FURTHER_PAIRS)), decided_at=3) > 0
    assert RULE.missing_pairs(pairs_of(*[1.26] * (MAX_PAIRS + FURTHER_PAIRS)), decided_at=3) == 0


def test_how_many_pairs_a_claim_still_needs_is_told_as_soon_as_it_is_decided() -> None:
    close = pairs_of(1.26, 1.25, 1.27)
    assert RULE.missing_pairs(close, decided_at=3) == FURTHER_PAIRS
    assert RULE.missing_pairs(pairs_of(*[1.26] * 5), decided_at=3) == FURTHER_PAIRS - 2
    scattering = [1.5, 1.9, 1.45, 1.95] * 4
    told = RULE.missing_pairs(pairs_of(*scattering[:4]), decided_at=2)
    assert told > 0
    assert RULE.missing_pairs(pairs_of(*scattering[: 4 + told - 2]), decided_at=2) > 0
    assert RULE.missing_pairs(pairs_of(*scattering[: 4 + told]), decided_at=2) == 0


def test_slower_settings_and_gains_too_small_to_show_are_given_up() -> None:
    assert RULE.decide(pairs_of(0.6, 0.62)) is False
    assert RULE.decide(pairs_of(1.0, 0.97, 1.02, 0.99)) is False
    assert RULE.decide(pairs_of(1.1, 1.2)) is None


def test_what_a_whole_run_needs_must_be_shown() -> None:
    """A slow start must be won back, so that not every faster step is worth having."""
    assert RULE._replace(min_speedup=1.8).decide(pairs_of(2.0, 2.05)) is None
    assert RULE._replace(min_speedup=1.8).decide(pairs_of(3.0, 3.1)) is True
    assert RULE._replace(min_speedup=4.0).decide(pairs_of(2.0, 2.1)) is False


@pytest.mark.parametrize("speedup", [3.0, 1.5, 1.25])
def test_as_many_pairs_as_are_expected_mostly_suffice(speedup: float) -> None:
    generator, expected = random.Random(1), expected_pairs(speedup)
    enough = 0
    for _ in range(200):
        logs = [generator.gauss(math.log(speedup), 0.08) for _ in range(expected)]
        pairs = pairs_of(*map(math.exp, logs))
        enough += any(RULE.decide(pairs[:count]) for count in range(MIN_PAIRS, expected + 1))
    assert enough >= 150


def test_a_smaller_speedup_than_so_many_pairs_decide_on_takes_more_of_them() -> None:
    for count in range(MIN_PAIRS, 8):
        least = decided_speedup(count)
        assert (deciding_pairs(1.0001 * least), deciding_pairs(0.9999 * least)) == (count, count + 1)
    assert 1.5 < decided_speedup(MIN_PAIRS) < 1.6


def test_pairs_that_confirm_are_expected_beside_those_that_decide_where_the_decision_is_close() -> None:
    confirming = {expected_pairs(one) - deciding_pairs(one) for one in (1.25, 1.3, 1.35, 1.4, 3.0)}
    assert confirming == {0, FURTHER_PAIRS}


def test_the_smaller_a_gain_the_more_pairs_are_expected_to_prove_it() -> None:
    expected = [expected_pairs(speedup) for speedup in (3.0, 1.5, 1.25, 1.03)]
    assert expected == sorted(expected)
    assert (expected[0], expected[-1]) == (MIN_PAIRS, MAX_PAIRS)


@pytest.mark.parametrize("speedup", [3.0, 1.5, 1.05])
def test_a_proof_mostly_ends_after_about_as_many_pairs_as_are_likely(speedup: float) -> None:
    """A proof of 1.05x is planned as what it takes to give it up, not as the many pairs that could show it."""
    generator, likely = random.Random(1), likely_pairs(speedup)
    ended = []
    for _ in range(200):
        logs = [generator.gauss(math.log(speedup) - PROCESS_DEVIATION, 0.08) for _ in range(MAX_PAIRS)]
        pairs = pairs_of(*map(math.exp, logs))
        decided = (count for count in range(MIN_PAIRS, MAX_PAIRS) if RULE.decide(pairs[:count]) is not None)
        ended.append(next(decided, MAX_PAIRS))
    assert abs(statistics.median(ended) - likely) <= 1
    assert expected_pairs(1.05) == MAX_PAIRS  # for which there should be time all the same
