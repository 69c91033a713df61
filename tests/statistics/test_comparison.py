"""Speed-ups and their intervals, on times whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from autoaccel.statistics.comparison import compare, verdict_of

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


@pytest.mark.parametrize("pairs", [3, 6])
def test_the_interval_covers_the_truth_as_often_as_it_says(pairs: int) -> None:
    generator = np.random.default_rng(1)
    comparisons = [compare(simulated(generator, 1.5, pairs)) for _ in range(400)]
    covered = np.mean([comparison.low <= 1.5 <= comparison.high for comparison in comparisons])
    assert covered >= 0.93
    assert np.median([comparison.speedup for comparison in comparisons]) == pytest.approx(1.5, rel=0.01)


def test_equal_settings_are_hardly_ever_called_faster() -> None:
    generator = np.random.default_rng(2)
    verdicts = [compare(simulated(generator, 1.0, 6)).verdict for _ in range(400)]
    assert verdicts.count("faster") <= 0.025 * 400
    assert verdicts.count("within noise") >= 0.9 * 400


def test_a_clear_gain_is_seen_with_six_pairs() -> None:
    generator = np.random.default_rng(3)
    verdicts = [compare(simulated(generator, 1.3, 6)).verdict for _ in range(100)]
    assert verdicts.count("faster") >= 95


def test_two_pairs_prove_little() -> None:
    assert compare(simulated(np.random.default_rng(4), 1.3, 2)).verdict == "within noise"


def test_the_same_times_give_the_same_interval() -> None:
    processes = simulated(np.random.default_rng(5), 1.2, 4)
    assert compare(processes) == compare(processes)
    assert compare(processes).process_pairs == 4
    assert compare(processes).turns == 32


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(1.021, 1.5, "faster"), (1.019, 1.5, "within noise"), (0.5, 0.979, "slower"), (0.5, 0.985, "within noise")],
)
def test_a_verdict_needs_the_whole_interval(low: float, high: float, verdict: str) -> None:
    assert verdict_of(low, high) == verdict


@pytest.mark.parametrize("processes", [[], [[]], [[(1.0, 1.0)], []]])
def test_a_pair_without_turns_is_refused(processes: list[list[tuple[float, float]]]) -> None:
    with pytest.raises(ValueError, match="at least one turn"):
        compare(processes)
