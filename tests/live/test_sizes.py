"""Steps of batches of different sizes, made comparable."""

from __future__ import annotations

import random

import pytest

from autoaccel.live.sizes import BatchSizes


def test_what_steps_take_is_known_by_their_sizes() -> None:
    sizes = BatchSizes()
    for size in (100, 200, 300, 400) * 5:
        sizes.learn(size, 0.1 + 0.001 * size)
    assert sizes.usual(100, 0.2) == pytest.approx(0.35)
    assert sizes.usual(400, 2 * 0.5) == pytest.approx(0.7)


@pytest.mark.parametrize("size", [lambda chance: 100, lambda chance: chance.randrange(100, 200)], ids=["one", "any"])
def test_sizes_that_tell_nothing_change_nothing(size: object) -> None:
    chance, sizes = random.Random(0), BatchSizes()
    for _ in range(200):
        sizes.learn(size(chance), chance.lognormvariate(-3, 0.2))  # type: ignore[operator]
    assert sizes.usual(150, 0.05) == 0.05


def test_until_a_few_steps_were_made_nothing_is_changed() -> None:
    sizes = BatchSizes()
    sizes.learn(1, 1.0)
    sizes.learn(2, 2.0)
    assert sizes.usual(2, 2.0) == 2.0


def test_the_smallest_batches_are_not_taken_to_cost_nothing() -> None:
    sizes = BatchSizes()
    for size in (500, 1_000, 1_500) * 10:
        sizes.learn(size, 0.001 * size)
    assert sizes.usual(1, 0.001) == pytest.approx(0.005)
