"""How much each knob could matter."""

from __future__ import annotations

import math

import pytest

from autoaccel.advise.bounds import bound_beside_others
from autoaccel.advise.effects import effect_deviations
from autoaccel.records.profile import Finding


def finding(bound_speedup: float, *knobs: str) -> Finding:
    return Finding("code", "title", 0.5, bound_speedup, knobs)


def test_two_deviations_are_the_most_that_a_knob_could_win() -> None:
    found = effect_deviations(["optimizer.fused"], [finding(1.05, "optimizer.fused")])
    assert 2 * found["optimizer.fused"] == pytest.approx(math.log(bound_beside_others(1.05)))


def test_a_small_share_is_a_larger_one_of_a_shorter_step() -> None:
    assert bound_beside_others(1.0) == 1.0
    # 1 ms of 101 ms; once the other 100 ms take a third, it is 1 ms of 34.3 ms.
    assert bound_beside_others(1.01) == pytest.approx(34.33 / 33.33, rel=1e-3)


def test_the_largest_bound_counts_within_limits() -> None:
    findings = [finding(1.001, "a", "b"), finding(9.0, "b")]
    assert effect_deviations(["a", "b"], findings) == {"a": 0.02, "b": 0.3}


def test_a_knob_that_no_finding_names_could_do_much() -> None:
    assert effect_deviations(["threads.intra_op"], [finding(1.01, "optimizer.fused")]) == {"threads.intra_op": 0.3}
