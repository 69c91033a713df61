"""How much steps differ from one moment to the next is what equal settings seem to differ by."""

from __future__ import annotations

import random

import pytest

from autoaccel.live.usual import UsualBlocks


def test_what_blocks_drift_by_is_seen_of_enough_of_them() -> None:
    usual = UsualBlocks()
    assert usual.drift(8) is None
    for number in range(400 * 8):
        # Eight steps of 50 ms make a block; it becomes slower for so many blocks, then faster again.
        usual.add(0.05 * (1.2 if (number // 64) % 2 else 1.0))
    assert usual.drift(8) == pytest.approx(0.15, abs=0.05)
    assert usual.drift(64) == pytest.approx(0.0, abs=0.02)
    usual.forget()
    assert usual.drift(8) is None


def test_noise_of_steps_is_hardly_any_drift() -> None:
    chance, usual = random.Random(0), UsualBlocks()
    for _ in range(2_000):
        usual.add(0.05 * chance.lognormvariate(0.0, 0.1))
    found = usual.drift(8)
    assert found is not None
    assert found < 0.03


@pytest.mark.parametrize("seconds", [0.002, 0.05, 2.0])
def test_blocks_are_of_steps_of_any_length(seconds: float) -> None:
    usual = UsualBlocks()
    for _ in range(30_000 if seconds < 0.01 else 1_000):
        usual.add(seconds)
    assert usual.drift(8) == 0.0
