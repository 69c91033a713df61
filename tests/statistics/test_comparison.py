"""Speed-ups and their intervals, on times whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from autoaccel.statistics.comparison import (
    compare,
    compare_in_process,
    middle,
    verdict_of,
    without_excess,
)

BETWEEN, WITHIN = 0.05, 0.13  # standard deviations of the log ratio, as measured on a shared 2-core machine


def simulated(
    generator: np.random.Generator, speedup: float, pairs: int, turns: int = 8
) -> list[list[tuple[float, float]]]:
    """Return pairs of processes whose machine drifts by up to a factor of three from turn to turn."""
    processes = []
    for _ in range(pairs):
        pair_speedup = speedup * np.exp(generator.normal(0, BETWEEN))
        machine = np.exp(generator.uniform(0, np.log(3), turns))
        noise = np.exp(generator.normal(0, WITHIN, turns))
        processes.append([(m * 0.03, m * 0.03 / pair_speedup * n) for m, n in zip(machine, noise, strict=True)])
    return processes


def test_the_interval_covers_the_truth_however_often_one_looks() -> None:
    generator = np.random.default_rng(1)
    missed = 0
    for _ in range(400):
        pairs = simulated(generator, 1.5, 10)
        looks = [compare(pairs[:count]) for count in range(2, 11)]
        missed += any(not look.low <= 1.5 <= look.high for look in looks)
    assert missed <= 0.05 * 400
    assert compare(simulated(generator, 1.5, 200)).speedup == pytest.approx(1.5, rel=0.02)


def test_equal_settings_are_hardly_ever_called_faster_at_any_look() -> None:
    generator = np.random.default_rng(2)
    called = 0
    for _ in range(400):
        pairs = simulated(generator, 1.0, 10)
        called += any(compare(pairs[:count]).verdict == "faster" for count in range(2, 11))
    assert called <= 0.01 * 400


def test_a_clear_gain_is_seen_with_six_pairs() -> None:
    generator = np.random.default_rng(3)
    verdicts = [compare(simulated(generator, 1.4, 6)).verdict for _ in range(100)]
    assert verdicts.count("faster") >= 95


def test_two_pairs_that_agree_say_at_least_twice_where_they_show_three_times() -> None:
    """Three such pairs came out as 1.06 to 8.77 as long as their scatter was learned from nothing."""
    generator = np.random.default_rng(4)
    lows = [compare(simulated(generator, 3.0, 2)).low for _ in range(100)]
    assert sum(low > 2.0 for low in lows) >= 90


def test_few_turns_that_scatter_widen_the_interval() -> None:
    calm = compare([[(1.5, 1.0), (1.5, 1.0)]] * 3)
    restless = compare([[(1.2, 1.0), (1.8, 1.0)]] * 3)
    assert restless.speedup == pytest.approx(calm.speedup)
    assert restless.low < 0.9 * calm.low


def test_the_same_times_give_the_same_interval() -> None:
    processes = simulated(np.random.default_rng(5), 1.2, 4)
    assert compare(processes) == compare(processes)
    assert compare(processes).process_pairs == 4
    assert compare(processes).turns == 32


def test_pairs_that_a_neighbour_disturbed_do_not_carry_the_estimate() -> None:
    """The noisiest of recorded claims ran 10 % high: disturbed pairs read high, and a mean takes them in full."""
    generator = np.random.default_rng(10)
    errors, of_the_mean, covered = [], [], 0
    for _ in range(400):
        disturbed = generator.uniform(size=9) < 0.15
        logs = generator.normal(0.4, BETWEEN, 9) + disturbed * generator.exponential(0.3, 9)
        found = compare([[(1.0, float(np.exp(-log)))] for log in logs])
        errors.append(np.log(found.speedup) - 0.4)
        of_the_mean.append(np.mean(logs) - 0.4)
        covered += found.low <= np.exp(0.4) <= found.high
    assert np.mean(of_the_mean) > 0.04
    assert np.mean(errors) < 0.5 * np.mean(of_the_mean)
    assert covered >= 0.95 * 400


def test_one_process_ranks_but_its_luck_stays_in_the_interval() -> None:
    generator = np.random.default_rng(6)
    covered = 0
    for _ in range(400):
        found = compare_in_process(simulated(generator, 1.2, 1, turns=12)[0])
        covered += found.low <= 1.2 <= found.high
        assert found.process_pairs == 1
    assert covered >= 0.88 * 400


def test_a_disturbed_process_says_next_to_nothing() -> None:
    turns = simulated(np.random.default_rng(7), 1.3, 1)[0]
    calm, disturbed = compare_in_process(turns), compare_in_process(turns, trusted=False)
    assert disturbed.speedup == calm.speedup
    assert disturbed.low < 1 < disturbed.high


def test_an_interval_with_room_for_drift_covers_what_is_measured_at_another_hour() -> None:
    generator = np.random.default_rng(9)
    drift, now, later = 0.06, 0, 0
    for _ in range(400):
        pairs = simulated(generator, 1.3 * np.exp(generator.normal(0, drift / np.sqrt(2))), 8)
        found = compare(pairs)
        truth = 1.3 * np.exp(generator.normal(0, drift / np.sqrt(2)))
        claim = compare(pairs, drift=drift)
        now += found.low <= truth <= found.high
        later += claim.low <= truth <= claim.high
        assert (claim.speedup, claim.drift) == (found.speedup, drift)
    assert now < 0.9 * 400
    assert later >= 0.93 * 400


def test_what_was_shown_at_an_earlier_look_stays_shown_unless_the_estimate_falls_below() -> None:
    found = compare([[(1.1, 1.0)], [(1.2, 1.0)], [(1.4, 1.0)], [(1.1, 1.0)]])
    assert found.low < 1.02 and found.verdict == "within noise"
    shown = without_excess(found, 0.01, shown=1.02)
    assert shown.speedup == pytest.approx(found.speedup / np.exp(0.01))
    assert (shown.low, shown.high, shown.verdict) == (1.02, found.high, "faster")
    refuted = without_excess(found, 0.2, shown=1.02)
    assert refuted.low == refuted.speedup < 1.02 and refuted.verdict == "within noise"


def test_the_middle_is_deaf_to_a_few_disturbed_values_and_wastes_few_others() -> None:
    assert middle([1.0, 1.01, 0.99, 1.0, 7.0]) == pytest.approx(1.005)
    generator = np.random.default_rng(8)
    samples = generator.normal(0, 1, (2000, 9))
    assert np.std([middle(list(sample)) for sample in samples]) < 1.1 * np.std(samples.mean(axis=1))


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(1.021, 1.5, "faster"), (1.019, 1.5, "within noise"), (0.5, 0.979, "slower"), (0.5, 0.985, "within noise")],
)
def test_a_verdict_needs_the_whole_interval(low: float, high: float, verdict: str) -> None:
    assert verdict_of(low, high) == verdict


@pytest.mark.parametrize("processes", [[], [[(1.0, 1.0)]], [[(1.0, 1.0)], [], [(1.0, 1.0)]]])
def test_too_few_pairs_and_pairs_without_turns_are_refused(processes: list[list[tuple[float, float]]]) -> None:
    with pytest.raises(ValueError, match="at least two pairs"):
        compare(processes)
