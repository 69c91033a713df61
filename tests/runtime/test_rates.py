"""How many times as fast short types are here: found by turns, and without spending seconds on emulation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import torch

from autoaccel.runtime import rates
from autoaccel.runtime.rates import product_speedup

Timed = dict[tuple[int, torch.dtype], Iterator[float]]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[tuple[int, torch.dtype], list[float]]], Timed]:
    """Return how to have products of a size in a dtype take so many seconds, call after call."""

    def arrange(seconds: dict[tuple[int, torch.dtype], list[float]]) -> Timed:
        left = {key: iter(values) for key, values in seconds.items()}
        monkeypatch.setattr(rates, "_product", lambda side, device, dtype: (side, dtype))
        monkeypatch.setattr(rates, "_once", lambda work, device: next(left[work]))
        return left

    return arrange


def test_what_disturbs_some_turns_does_not_count(timed: Callable[..., Timed]) -> None:
    small = {(128, torch.float32): [1.0] * 16, (128, torch.bfloat16): [1.0] * 16}
    timed({
        **small,
        (512, torch.float32): [9.0] * 14 + [2.0, 2.1],
        (512, torch.bfloat16): [9.0] * 14 + [4.1, 4.0],
    })  # fmt: skip
    assert product_speedup(torch.bfloat16) == 0.5


def test_an_emulated_type_is_not_measured_at_length(timed: Callable[..., Timed]) -> None:
    timed({(128, torch.float32): [1.0] * 16, (128, torch.float16): [50.0] * 16})  # none is there of the larger size
    assert product_speedup(torch.float16) == 0.02


def test_beside_others_that_make_each_call_long_a_few_turns_must_do(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def once(work: object, device: torch.device) -> float:
        calls.append(work)
        time.sleep(0.05)
        return 0.05

    monkeypatch.setattr(rates, "_once", once)
    assert product_speedup(torch.bfloat16) == 1.0
    assert len(calls) == 2 * 2 * 3  # sizes, types, turns


def test_a_type_that_cannot_be_multiplied_has_no_speedup() -> None:
    assert product_speedup(torch.bool) is None
    assert product_speedup(torch.bfloat16) is not None
