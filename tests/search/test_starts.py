"""What is known of slower first steps: cold once on each machine, warm from then on."""

from __future__ import annotations

import pytest

from autoaccel.records.messages import Turn
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Measurement
from autoaccel.search.economy import Economy
from autoaccel.search.starts import SlowStarts, start_of
from autoaccel.statistics.runs import WARM_SHARE

COMPILED: Settings = {"compile.mode": "default", "loader.workers": 0}
PRUNED: Settings = {"compile.mode": "off", "model.sparsity": 0.5}


def measured(slower_seconds: float, imports: float = 0.0, late: float = 0.0) -> Measurement:
    """Return what a process showed whose first step took this much longer, beside what it imported for it."""
    turns = (Turn((0.1,)),)
    return Measurement(3.0, (0.1 + slower_seconds, 0.1), turns, lazy_import_seconds=imports, late_seconds=late)


def test_imports_and_a_model_that_has_not_shrunk_yet_are_paid_for_by_every_run() -> None:
    cold, warm = start_of({**COMPILED, "model.sparsity": 0.5}, measured(20.0, imports=2.0, late=3.0))
    assert cold == pytest.approx(25.0)
    assert warm == pytest.approx(2.0 + 3.0 + WARM_SHARE * 20.0)
    assert start_of(PRUNED, measured(4.0)) == pytest.approx((4.0, 4.0))


def test_each_machine_compiles_once() -> None:
    starts = SlowStarts()
    starts.learn(COMPILED, measured(20.0))
    starts.learn({**COMPILED, "loader.workers": 1}, measured(30.0), host="another")
    assert starts.known(COMPILED) == pytest.approx((30.0, WARM_SHARE * 30.0))
    starts.learn({**COMPILED, "loader.workers": 2}, measured(2.0))
    assert starts.known(COMPILED) == pytest.approx((30.0, 2.0))


def test_a_cache_that_was_lost_makes_no_run_slower_than_the_first() -> None:
    starts = SlowStarts()
    starts.learn(COMPILED, measured(20.0))
    starts.learn(COMPILED, measured(25.0))
    assert starts.known(COMPILED) == pytest.approx((20.0, 20.0))


def test_what_was_not_compiled_yet_is_expected_to_take_what_others_did() -> None:
    starts = SlowStarts()
    other: Settings = {**COMPILED, "precision.autocast": "bfloat16"}
    assert starts.expected(other) == pytest.approx((25.0, WARM_SHARE * 25.0))
    starts.learn(COMPILED, measured(60.0))
    assert starts.known(other) is None
    assert starts.expected(other) == pytest.approx((60.0, WARM_SHARE * 60.0))
    starts.learn(PRUNED, measured(4.0))
    assert starts.expected({**PRUNED, "model.sparsity": 0.3}) == pytest.approx((4.0, 4.0))


def test_before_anything_was_compiled_the_size_of_the_model_tells_unless_only_its_blocks_are_compiled() -> None:
    starts = SlowStarts(compile_seconds=70.0)
    assert starts.expected(COMPILED) == pytest.approx((70.0, WARM_SHARE * 70.0))
    blocks: Settings = {**COMPILED, "compile.region": "blocks"}
    assert starts.expected(blocks) == pytest.approx((25.0, WARM_SHARE * 25.0))
    starts.learn(COMPILED, measured(40.0))
    assert starts.expected({**COMPILED, "precision.autocast": "bfloat16"}).cold == pytest.approx(40.0)


def test_an_average_run_takes_as_long_with_the_longest_compilation_that_it_can_bear() -> None:
    economy = Economy(20, 1000, 0.1, 3.0, 0.0, 3.0)
    cold = economy.cold_seconds_for(economy.baseline_total_seconds, 0.4)
    average = (cold + 19 * WARM_SHARE * cold) / 20
    assert economy.total_seconds(0.4, average) == pytest.approx(economy.baseline_total_seconds)
    assert economy.cold_seconds_for(economy.baseline_total_seconds, -0.1) < 0
