"""A bound binds: it follows from the rates of what a remedy reaches, and never exceeds the step's roofline."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from autoaccel.advise.bounds import bound_beside_others
from autoaccel.advise.findings import BEYOND_ROOFLINE, advise
from autoaccel.advise.reach import (
    MARGIN,
    bound_of_compiling,
    bound_of_groups,
    bound_of_layout,
    bound_of_sixteen_bits,
    bound_of_update,
    compute_groups,
)
from autoaccel.advise.rules import RULES
from autoaccel.records.machine import Machine
from autoaccel.records.profile import OperatorShare, Profile
from autoaccel.records.rates import Rates
from autoaccel.report.wording import worth_showing

from .conftest import MakeObserved
from .samples import RATES, profile

GPT: dict[str, Any] = {
    "groups": {"matmul": 0.6, "attention": 0.1, "elementwise": 0.2, "memory": 0.1},
    "step_seconds": 2.2,
    "flops": {"matmul": 204_600_000_000},
    "moved_bytes": 10**9,
    "min_bytes": 10**6,
}
"""A step of 2.2 s that 4e11 FLOP/s in bfloat16 allow to become 4.30 times as fast."""

NO_AUTOCAST: dict[str, Any] = {"conditions": {"autocast": False}}


def gpt(**changes: Any) -> Profile:
    return profile({"optimizer": 0.02}, **{**GPT, **changes})


def test_no_finding_promises_more_than_the_whole_step_could_win(make_observed: MakeObserved) -> None:
    """A step that could become 4.30x faster had findings of at most 51.12x, for autocast and for compiling."""
    observed = make_observed(profile=gpt(), **NO_AUTOCAST)
    assert observed.max_speedup == pytest.approx(4.30, rel=0.01)
    findings = advise(observed)
    inside = [finding for finding in findings if finding.code not in BEYOND_ROOFLINE]
    assert {"reduced-precision", "forward-backward", "dense-compute"} <= {finding.code for finding in inside}
    assert all(finding.bound_speedup <= observed.max_speedup for finding in inside)
    assert RULES.keys() >= BEYOND_ROOFLINE


def test_sixteen_bits_win_what_the_rates_and_half_the_bytes_allow(make_observed: MakeObserved) -> None:
    # Of the step 2 % are the update; of the rest 70 % are products at four times the rate, 30 % move half the bytes.
    step = profile({"optimizer": 0.02}, groups={"matmul": 0.5, "attention": 0.2, "elementwise": 0.3})
    observed = make_observed(profile=step, **NO_AUTOCAST)
    left = 0.02 + 0.7 / (4 * MARGIN) + 0.28 / (2 * MARGIN)
    assert bound_of_sixteen_bits(observed) == pytest.approx(1 / left)
    for code in ("dense-compute", "reduced-precision"):
        found = RULES[code](observed)
        assert found is not None and found.bound_speedup == pytest.approx(1 / left)


def test_what_is_computed_in_sixteen_bits_already_wins_little(make_observed: MakeObserved) -> None:
    assert bound_of_sixteen_bits(make_observed(profile=gpt())) <= MARGIN


@pytest.mark.parametrize(("feature", "ratio"), [("avx512_bf16", 2.0), ("amx_bf16", 16.0)])
def test_where_nobody_measured_the_hardwares_own_ratio_counts(
    feature: str, ratio: float, make_observed: MakeObserved
) -> None:
    step = profile(groups={"matmul": 1.0})
    unmeasured = msgspec.structs.replace(RATES, matmul={}, convolution={})
    for rates in (None, unmeasured):
        observed = make_observed(
            profile=step, machine={"cpu": {"features": (feature,)}}, rates=rates or unmeasured, **NO_AUTOCAST
        )
        assert bound_of_sixteen_bits(observed) == pytest.approx(MARGIN * ratio)


def test_where_only_products_were_probed_they_count(make_observed: MakeObserved, machine: Machine) -> None:
    """A profile of a small budget has no rates; a processor's instructions alone do not say that they are fast."""
    step, unmeasured = profile(groups={"convolution": 1.0}), msgspec.structs.replace(RATES, matmul={}, convolution={})
    for speedup, bound in ((0.85, MARGIN), (1.5, 1.5 * MARGIN)):
        torch = msgspec.structs.replace(machine.torch, product_speedups={"bfloat16": speedup})
        here = {"cpu": {"features": ("avx512_bf16",)}, "torch": torch}
        observed = make_observed(profile=step, machine=here, rates=unmeasured, **NO_AUTOCAST)
        assert bound_of_sixteen_bits(observed) == pytest.approx(bound)
        assert (RULES["reduced-precision"](observed) is not None) == (speedup > 1.2)


def test_a_compiler_leaves_dense_kernels_as_they_are(make_observed: MakeObserved) -> None:
    observed = make_observed(profile=profile({"data wait": 0.1}, groups={"matmul": 0.6, "elementwise": 0.4}))
    assert observed.dense == pytest.approx(0.54)
    assert bound_of_compiling(observed) == pytest.approx(1 / (0.1 + 0.54 / MARGIN))


def test_a_layout_wins_by_its_measured_effect_on_convolutions(make_observed: MakeObserved) -> None:
    images = profile(groups={"convolution": 0.8, "elementwise": 0.2})
    measured: Rates = msgspec.structs.replace(RATES, channels_first=RATES.convolution["float32"] / 1.2)
    observed = make_observed(profile=images, rates=measured)
    assert bound_of_layout(observed) == pytest.approx(1 / (0.2 + 0.8 / (1.2 * MARGIN)))
    # A layout that is slower by itself may still pay where the reorders around it go.
    slower = make_observed(profile=images, rates=msgspec.structs.replace(measured, channels_first=2e11))
    assert bound_of_layout(slower) == pytest.approx(1 / (0.2 + 0.8 / MARGIN))


def test_an_update_is_no_faster_than_its_numbers_come_from_memory(make_observed: MakeObserved) -> None:
    # 10 million float32 with two moments each: 3 x 40 MB and twice 80 MB, at 1.5 times 10 GB/s: 18.7 ms of 100 ms.
    step = profile({"optimizer": 0.4}, parameters=10**7, min_bytes=6 * 40_000_000 + 2 * 80_000_000 + (1 << 20))
    observed = make_observed(profile=step, machine={"cpu": {"caches": ()}})
    assert bound_of_update(observed) == pytest.approx(1 / (0.6 + 280e6 / 1.5e10 / 0.1))
    # Where some parameters are not trained, nobody knows what an update moves.
    frozen = msgspec.structs.replace(step, min_bytes=10**7)
    assert bound_of_update(make_observed(profile=frozen)) == pytest.approx(1 / 0.6)


def test_workers_need_cores_too(make_observed: MakeObserved) -> None:
    """Loading that keeps a core busy for four fifths of the step was said to allow 4.8x; with two cores it won 1.8x."""
    waits = profile({"data wait": 0.8})
    loading = {"samples": {"seconds": 0.08 / 64, "busy_seconds": 0.08 / 64}, "loader": {"workers": 0}, "alone": None}
    observed = make_observed(profile=waits, conditions=loading, training={"dataset_bytes": None})
    for code in ("data-wait", "few-workers"):
        found = RULES[code](observed)
        assert found is not None
        assert found.bound_speedup == pytest.approx(min(5.0, MARGIN * observed.machine.usable_cores))
    kept = RULES["data-wait"](make_observed(profile=waits, conditions=loading))
    assert kept is not None and kept.bound_speedup == pytest.approx(5.0)  # samples that are kept need no core
    asleep = make_observed(
        profile=waits,
        conditions={**loading, "samples": {"seconds": 0.08 / 64, "busy_seconds": 1e-9}},
        training={"dataset_bytes": None},
    )
    found = RULES["data-wait"](asleep)
    assert found is not None and found.bound_speedup == pytest.approx(5.0)


def test_operators_of_loading_are_none_of_the_model(make_observed: MakeObserved) -> None:
    """Where samples are made of tensors in the same process, its operators hid how much of the model is dense."""
    operators = (OperatorShare("aten::convolution", "convolution", 0.1, 1.0, self_seconds=0.01),)
    step = profile(
        {"data wait": 0.8},
        groups={"convolution": 0.1, "elementwise": 0.9},
        operators=operators,
        traced_step_seconds=0.1,
    )
    observed = make_observed(profile=step)
    assert observed.dense == pytest.approx(0.1)  # of the step; half of what is no loading
    assert sum(compute_groups(observed).values()) == pytest.approx(0.2)


def test_bounds_combine(make_observed: MakeObserved) -> None:
    """bfloat16 and compiling together won more than either: what one leaves is a larger share of what the other did."""
    observed = make_observed(profile=gpt(), **NO_AUTOCAST)
    compiling, bits = bound_of_compiling(observed), bound_of_sixteen_bits(observed)
    joint = bound_of_groups(observed, {"matmul": 4 * MARGIN, "attention": 4 * MARGIN}, float("inf"))
    assert joint > max(compiling, bits)
    assert bound_beside_others(compiling) >= joint / bits


def test_what_is_said_of_products_is_no_rate_of_convolutions(make_observed: MakeObserved) -> None:
    """A model without any convolution was told that bfloat16 is 7.9 times as fast: that was of convolutions."""
    rates = msgspec.structs.replace(RATES, convolution={"float32": 1e11, "bfloat16": 7.9e11})
    found = RULES["reduced-precision"](make_observed(profile=gpt(), rates=rates, **NO_AUTOCAST))
    assert found is not None and found.numbers["bfloat16_over_float32"] == pytest.approx(4.0)


def test_a_remedy_is_told_once(make_observed: MakeObserved) -> None:
    slow_update = {"optimizer": {"fused": False}, "model": {"parameter_tensors": 200}, "autocast": False}
    observed = make_observed(profile=profile({"optimizer": 0.3}, **GPT), conditions=slow_update)
    findings = advise(observed)
    shown = [finding.code for finding in worth_showing(findings)]
    assert {"reduced-precision", "optimizer-loop"} <= set(shown)
    assert not {"dense-compute", "optimizer"} & set(shown)


def test_attention_that_is_written_out_is_no_dense_kernel_to_a_compiler(make_observed: MakeObserved) -> None:
    step = profile(groups={"matmul": 0.6, "elementwise": 0.4})
    written_out = msgspec.structs.replace(step, operator_names=("aten::bmm", "aten::mm"))
    plain = bound_of_compiling(make_observed(profile=step))
    assert plain == pytest.approx(MARGIN / 0.6) and bound_of_compiling(make_observed(profile=written_out)) > 10 * plain


def test_rates_that_others_disturbed_close_nothing_and_promise_nothing_absurd(make_observed: MakeObserved) -> None:
    """Beside eight busy processes float32 convolutions read 264 times as slow in one layout as in the other."""
    images = profile({"optimizer": 0.2}, groups={"convolution": 1.0}, parameters=10**7, min_bytes=5 * 10**8)
    slow = msgspec.structs.replace(
        RATES,
        matmul={"float32": 1e9, "bfloat16": 1e12},
        convolution={"float32": 2.6e11, "bfloat16": 2.6e11},
        channels_first=1e9,
        memory_bytes_per_second=1e8,
    )
    features = {"cpu": {"features": ("avx512_bf16",), "caches": ()}}
    observed = make_observed(profile=images, rates=slow, machine=features, **NO_AUTOCAST)
    assert bound_of_sixteen_bits(observed) < 4.0 and bound_of_layout(observed) < 4.0
    assert bound_of_update(observed) == pytest.approx(1 / 0.9)
    # A step that is faster than its roofline says nothing but that.
    impossible = gpt(flops={"matmul": 10**13})
    assert make_observed(profile=impossible).max_speedup == float("inf")
