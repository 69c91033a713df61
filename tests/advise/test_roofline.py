"""What a step could attain at most, and by what it is limited."""

from __future__ import annotations

import msgspec
import pytest

from autoaccel.advise.roofline import roofline
from autoaccel.records.machine import Cache, Machine

from .samples import CONDITIONS, RATES, profile


def test_a_step_with_much_arithmetic_is_limited_by_it(machine: Machine) -> None:
    # 2 GFLOP in 0.1 s over 10 MB: 200 FLOP per byte; memory would feed 2 TFLOP/s, float32 does 100 GFLOP/s.
    found = roofline(
        profile(flops={"matmul": 2 * 10**9}, moved_bytes=10**7, min_bytes=10**6), machine, RATES, CONDITIONS
    )
    assert found is not None
    assert found.limited_by == "compute"
    assert found.achieved == pytest.approx(2e10)
    assert found.attainable == pytest.approx(1e11)
    # In bfloat16, 2 GFLOP take 5 ms.
    assert found.step_seconds_at_least == pytest.approx(0.005)
    assert found.max_speedup == pytest.approx(20)


def test_a_step_that_moves_more_than_the_caches_hold_is_limited_by_memory(machine: Machine) -> None:
    step = profile(flops={"matmul": 10**7}, moved_bytes=10**8, min_bytes=5 * 10**7)
    found = roofline(step, machine, RATES, CONDITIONS)
    assert found is not None
    assert found.limited_by == "memory"
    assert found.attainable == pytest.approx(0.1 * 1e10)
    assert found.step_seconds_at_least == pytest.approx(0.005)
    cached = msgspec.structs.replace(
        machine, cpu=msgspec.structs.replace(machine.cpu, caches=(Cache(3, "unified", 10**8, 1),))
    )
    found = roofline(step, cached, RATES, CONDITIONS)
    assert found is not None
    assert found.step_seconds_at_least == pytest.approx(10**7 / 4e11)


def test_without_operations_there_is_no_roofline(machine: Machine) -> None:
    assert roofline(profile(), machine, RATES, CONDITIONS) is None
