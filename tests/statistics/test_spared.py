"""What the operating system no longer does tells how much faster steps are at least."""

from __future__ import annotations

import math
import random

import pytest

from autoaccel.records.messages import Turn
from autoaccel.records.trial import Comparison
from autoaccel.statistics.spared import (
    Spared,
    SystemTime,
    at_least_spared,
    may_be_spared,
    spared_log,
    system_time,
)


def test_what_the_system_spends_on_a_step_is_that_of_all_turns() -> None:
    found = system_time([Turn((1.0, 2.0), system_seconds=0.3), Turn((), system_seconds=0.0), Turn((3.0,))])
    assert found == pytest.approx(SystemTime(0.1, 2.0))
    assert system_time([Turn(())]) is None


def spared(own: float, other: float = 0.0) -> Spared:
    """Return a pair of processes of whose steps of a second the system takes so much."""
    return Spared(SystemTime(own, 1.0), SystemTime(other, 1.0))


def test_steps_are_shorter_by_what_the_system_spends_less_on_them() -> None:
    assert spared(0.5).log_speedup == pytest.approx(math.log(2))
    assert spared(0.1, 0.3).log_speedup < 0
    assert math.isfinite(spared(1.0).log_speedup)


@pytest.mark.parametrize("scatter", [0.1, 0.4])
def test_the_bound_holds_at_every_look_and_comes_close(scatter: float) -> None:
    chance, missed, last = random.Random(0), 0, 0.0
    truth = -math.log1p(-0.1)
    for _ in range(400):
        logs = [truth * (1 + chance.gauss(0, scatter)) for _ in range(10)]
        pairs = [spared(-math.expm1(-one)) for one in logs]
        bounds = [spared_log(pairs[:count], 0.05) for count in range(2, 11)]
        missed += any(bound > truth for bound in bounds)
        last += bounds[-1] / 400
    assert missed / 400 <= 0.05
    assert last > (0.8 if scatter < 0.2 else 0.45) * truth


def test_nothing_is_known_of_one_pair_and_nothing_is_shown_where_nothing_is_spared() -> None:
    assert spared_log([spared(0.5)], 0.05) == -math.inf
    assert spared_log([spared(0.1, 0.1), spared(0.1, 0.09)], 0.05) < math.log(1.02)


def test_what_seems_spared_because_processes_differ_is_not_shown() -> None:
    """The system's time of two processes scatters by a share of itself, however little their difference is."""
    chance, shown = random.Random(0), 0
    for _ in range(400):
        pairs = [spared(*(0.3 * math.exp(chance.gauss(0, 0.2)) for _ in range(2))) for _ in range(10)]
        shown += any(spared_log(pairs[:count], 0.05) > math.log(1.02) for count in range(2, 11))
    assert shown / 400 <= 0.025


@pytest.mark.parametrize(("system", "likely"), [(0.01, False), (0.03, False), (0.1, True)])
def test_it_is_evidence_only_where_the_system_takes_enough(system: float, likely: bool) -> None:
    assert may_be_spared([Turn((1.0,), system_seconds=system)], 1.02) == likely
    assert not may_be_spared([], 1.02)


@pytest.mark.parametrize(
    ("explained", "low", "verdict"),
    [(1.05, 1.05, "faster"), (1.2, 1.1, "faster"), (1.01, 1.01, "within noise"), (0.9, 1.0, "within noise")],
    ids=["by the system", "by the clock", "too little", "with room for drift, which says more"],
)
def test_the_least_that_both_show_is_claimed(explained: float, low: float, verdict: str) -> None:
    found = Comparison(1.15, 1.1, 1.2, "faster", 0.95, 4, 32)
    drifting = Comparison(1.15, 1.0, 1.3, "within noise", 0.95, 4, 32, drift=0.07)
    claimed = at_least_spared(found, drifting, math.log(explained))
    assert (claimed.speedup, claimed.low, claimed.high) == pytest.approx((1.15, low, 1.3))
    assert claimed.verdict == verdict
    assert (claimed.drift, claimed.spared) == pytest.approx((0.07, explained))
