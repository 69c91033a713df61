"""Noise made false claims hold: a claim of 1.20 was upheld by a measurement of 1.01 (0.92 to 1.10)."""

from __future__ import annotations

import pytest

from autoaccel.records.trial import Comparison
from autoaccel.statistics.claims import judge_claim
from autoaccel.statistics.comparison import verdict_of


def measured(speedup: float, factor: float) -> Comparison:
    """Return a speed-up whose interval reaches from a factor below to a factor above."""
    low, high = speedup / factor, speedup * factor
    return Comparison(speedup, low, high, verdict_of(low, high), 0.95, 5, 40)


CLAIM = measured(1.2, 1.09)


@pytest.mark.parametrize(
    ("speedup", "factor", "verdict"),
    [
        (1.01, 1.09, "does not hold"),
        (1.2, 1.1, "holds"),
        (1.11, 1.05, "holds"),  # within what was claimed, and faster
        (1.5, 1.1, "holds"),  # more than was claimed
        (1.2, 1.3, "inconclusive"),  # as claimed, but perhaps not faster
        (1.01, 1.5, "inconclusive"),
        (1.09, 1.06, "inconclusive"),  # faster, perhaps less so than was claimed
        (1.09, 1.01, "does not hold"),  # which it is
        (0.9, 1.05, "does not hold"),
    ],
)
def test_a_claim_holds_if_the_settings_are_still_shown_to_be_faster_by_as_much(
    speedup: float, factor: float, verdict: str
) -> None:
    assert judge_claim(CLAIM, measured(speedup, factor)) == verdict


def test_noise_never_makes_a_claim_hold() -> None:
    for speedup in (1.0, 1.05, 1.08, 1.1, 1.15, 1.2, 1.4):
        by_noise = [judge_claim(CLAIM, measured(speedup, 1 + 0.01 * width)) == "holds" for width in range(1, 200)]
        assert by_noise == sorted(by_noise, reverse=True), speedup


def test_what_is_shown_not_to_be_faster_does_not_hold_however_little_was_claimed() -> None:
    assert judge_claim(measured(1.03, 1.3), measured(0.99, 1.02)) == "does not hold"
    assert judge_claim(measured(1.03, 1.3), measured(1.01, 1.02)) == "inconclusive"
