"""How much each knob could matter."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import pytest

from autoaccel.advise.bounds import bound_beside_others
from autoaccel.advise.effects import Halving, effect_deviations, halving_means
from autoaccel.records.machine import ProcessLimits
from autoaccel.records.profile import Finding
from autoaccel.space.knobs import KnobContext, baseline_settings


def finding(bound_speedup: float, *knobs: str) -> Finding:
    return Finding("code", "title", 0.5, bound_speedup, knobs)


def test_two_deviations_are_the_most_that_a_knob_could_win() -> None:
    found = effect_deviations(["optimizer.fused"], [finding(1.05, "optimizer.fused")])
    assert 2 * found["optimizer.fused"] == pytest.approx(math.log(bound_beside_others(1.05)))


def test_a_small_share_is_a_larger_one_of_a_shorter_step() -> None:
    assert bound_beside_others(1.0) == 1.0
    # 1 ms of 101 ms; once the other 100 ms take a third, it is 1 ms of 34.3 ms.
    assert bound_beside_others(1.01) == pytest.approx(34.33 / 33.33, rel=1e-3)


def test_a_wait_for_data_is_no_part_of_the_step_that_other_remedies_leave() -> None:
    # 5 ms of 100 ms, 80 of which wait for data; without the wait, once the other 15 ms take a third, it is 5 ms of 10.
    assert bound_beside_others(1 / 0.95, 5.0) == pytest.approx(2.0)
    wait = msgspec.structs.replace(finding(5.0, "loader.workers"), code="data-wait")
    compiling = finding(1 / 0.95, "compile.mode")
    alone = effect_deviations(["compile.mode"], [compiling])["compile.mode"]
    assert effect_deviations(["compile.mode"], [compiling, wait])["compile.mode"] > 2 * alone
    # What removes the wait is not helped by its going.
    slight = msgspec.structs.replace(finding(1.1, "loader.workers"), code="data-wait")
    assert effect_deviations(["loader.workers"], [slight])["loader.workers"] == pytest.approx(
        math.log(bound_beside_others(1.1)) / 2
    )


def test_a_step_that_only_waits_has_bounds_too() -> None:
    assert bound_beside_others(1.0, 1000.0) == pytest.approx(1.0)
    assert bound_beside_others(2.0, 1000.0) == pytest.approx(1000.0)


def test_the_largest_bound_counts_within_limits() -> None:
    findings = [finding(1.001, "a", "b"), finding(9.0, "b")]
    assert effect_deviations(["a", "b"], findings) == {"a": 0.02, "b": 0.3}


def test_a_knob_that_no_finding_names_could_do_much() -> None:
    assert effect_deviations(["threads.intra_op"], [finding(1.01, "optimizer.fused")]) == {"threads.intra_op": 0.3}


def halving(context: KnobContext, *findings: Finding) -> dict[str, Halving]:
    return halving_means(context, baseline_settings(context), findings)


def test_fewer_threads_are_expected_to_be_slower_but_where_operators_are_small_or_an_accelerator_computes(
    context: KnobContext, vary: Callable[..., KnobContext]
) -> None:
    expected = halving(context, finding(1.5, "optimizer.fused"))
    assert expected.keys() == {"threads.intra_op"}
    assert -0.7 < expected["threads.intra_op"].log_speedup < 0  # -0.69: half as fast
    assert halving(context, msgspec.structs.replace(finding(2.0, "threads.intra_op"), code="small-operators")) == {}
    assert halving(vary(context, device="cuda")) == {}


def test_threads_too_many_for_the_cores_are_not_expected_to_help(
    context: KnobContext, vary: Callable[..., KnobContext]
) -> None:
    four_on_two = vary(context, limits=ProcessLimits((0, 1, 2, 3), 4, cpu_quota=2.0))
    assert halving(context)["threads.intra_op"].below == 4
    assert halving(four_on_two)["threads.intra_op"].below == 2
