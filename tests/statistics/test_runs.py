"""How surely a whole run is faster: it was claimed to be without the uncertainty of its start."""

from __future__ import annotations

import numpy as np
import pytest

from autoaccel.records.trial import Comparison
from autoaccel.statistics.comparison import compare_logs
from autoaccel.statistics.runs import READING_DEVIATION, CompileSeconds, run_speedup, slowest_start


def measured(generator: np.random.Generator) -> Comparison:
    """Return what eight pairs say of steps that are 1.5 times as fast."""
    return compare_logs(list(generator.normal(np.log(1.5), 0.06, 8)), 64, 0.95)


STEPS = measured(np.random.default_rng(1))


def test_a_long_run_is_as_much_faster_as_its_steps() -> None:
    found = run_speedup(STEPS, 1e6, 3.0, 20.0)
    assert found.speedup == pytest.approx(STEPS.speedup, rel=1e-3)
    assert (found.low, found.high) == (pytest.approx(STEPS.low, rel=1e-3), pytest.approx(STEPS.high, rel=1e-3))


def test_a_compilation_makes_a_claim_smaller_and_less_sure() -> None:
    without, compiled = (run_speedup(STEPS, 100.0, 3.0, extra) for extra in (0.0, 25.0))
    assert compiled.speedup < without.speedup < STEPS.speedup
    assert compiled.low < 1 < compiled.speedup  # shown for the steps, not for the run
    # Wider than what the steps alone make of it.
    alone = np.log(128.0 / (28 + 100 / STEPS.low)) - np.log(compiled.low)
    assert alone > 0.02


def test_a_start_that_is_spared_makes_a_run_faster_still() -> None:
    assert run_speedup(STEPS, 100.0, 10.0, -5.0).speedup > run_speedup(STEPS, 100.0, 10.0, 0.0).speedup


def test_the_interval_of_a_run_covers_what_it_takes() -> None:
    generator, covered = np.random.default_rng(2), 0
    for _ in range(400):
        steps = measured(generator)
        overhead, extra = 10 * np.exp(generator.normal(0, READING_DEVIATION, 2))
        found = run_speedup(steps, 100.0, overhead, extra)
        covered += found.low <= 110 / (20 + 100 / 1.5) <= found.high
    assert covered >= 0.95 * 400


def test_a_slower_start_must_be_won_back_even_if_it_takes_longer_than_it_was_seen_to() -> None:
    assert slowest_start(0.0, 0.95) == 0.0
    assert slowest_start(10.0, 0.95) == pytest.approx(13.9, abs=0.1)


def test_of_many_runs_one_compiles() -> None:
    found = CompileSeconds(20.0, 2.0)
    assert [found.average(runs) for runs in (1, 2, 18)] == [20.0, 11.0, 3.0]
