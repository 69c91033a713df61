"""How much steps differ from one moment to the next is what equal settings seem to differ by."""

from __future__ import annotations

import math
import random

import pytest

from autoaccel.live.blocks import system_share
from autoaccel.live.usual import BLOCKS_BEFORE, MAX_BLOCKS_BEFORE, UNKNOWN_DRIFT, UsualBlocks


def test_what_blocks_drift_by_is_seen_of_enough_of_them() -> None:
    usual = UsualBlocks()
    assert usual.drift(8) == UNKNOWN_DRIFT
    for number in range(400 * 8):
        # Eight steps of 50 ms make a block; it becomes slower for so many blocks, then faster again.
        usual.add(0.05 * (1.2 if (number // 64) % 2 else 1.0))
    assert usual.drift(8) == pytest.approx(0.15, abs=0.05)
    assert usual.drift(64) == pytest.approx(0.0, abs=0.02)
    usual.forget()
    assert usual.drift(8) == UNKNOWN_DRIFT


@pytest.mark.parametrize(("seconds", "noise"), [(0.05, 0.1), (1.0, 0.1), (1.0, 0.3)])
def test_noise_of_steps_is_hardly_any_drift(seconds: float, noise: float) -> None:
    chance, usual = random.Random(0), UsualBlocks()
    for _ in range(2_000):
        usual.add(seconds * chance.lognormvariate(0.0, noise))
    assert usual.drift(8) < 0.03


def test_steps_are_steady_once_they_become_no_faster() -> None:
    usual = UsualBlocks()
    blocks = None
    number = 0
    while blocks is None:
        usual.add(0.05 * (1 + math.exp(-number / 60)), 0.01)
        number += 1
        assert number < 1_000
        blocks = usual.steady()
    assert number > 100
    assert len(blocks) == BLOCKS_BEFORE
    assert system_share(blocks) == pytest.approx(0.01 / 0.05 / 1.1, abs=0.01)


def test_steps_that_never_become_steady_are_waited_for_no_longer_than_is_said() -> None:
    usual = UsualBlocks()
    made = 0
    while usual.steady() is None:
        usual.add(1.0 * 1.07**-made)
        made += 1
        assert made < 100
    assert made >= MAX_BLOCKS_BEFORE


@pytest.mark.parametrize("seconds", [0.002, 0.05, 2.0])
def test_blocks_are_of_steps_of_any_length(seconds: float) -> None:
    usual = UsualBlocks()
    for _ in range(30_000 if seconds < 0.01 else 1_000):
        usual.add(seconds)
    assert usual.drift(8) == 0.0
