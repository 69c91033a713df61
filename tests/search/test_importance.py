"""Which knobs decide, on trials whose truth is known."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from autoaccel.records.messages import Failure, Turn
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement, Trial
from autoaccel.search.importance import importance

SPACE = SearchSpace(
    name="test",
    open={"fused": (False, True), "cast": ("off", "bfloat16"), "workers": (0, 1, 2)},
    fixed={"threads": 2},
    closed={},
)


def trial(number: int, settings: Settings, total_seconds: float) -> Trial:
    return Trial(number, settings, Measurement(3.0, (1.0,), (Turn((1.0,)),)), 4.0, total_seconds=total_seconds)


def trials(cast: float, workers: float) -> list[Trial]:
    noise, found = random.Random(0), []
    for values in itertools.product(*SPACE.open.values()):
        settings: Settings = {**SPACE.fixed, **dict(zip(SPACE.open, values, strict=True))}
        log = cast * (settings["cast"] == "bfloat16") + workers * (settings["workers"] == 2) + noise.gauss(0, 0.02)
        found.append(trial(len(found) + 1, settings, 100 * math.exp(-log)))
    return found


def test_what_decides_comes_first_and_the_shares_add_up() -> None:
    for cast, workers, first in ((0.5, 0.05, "cast"), (0.0, 0.5, "workers")):
        found = importance(SPACE, trials(cast, workers))
        assert next(iter(found)) == first
        assert found[first] > 0.5
        assert sum(found.values()) == pytest.approx(1.0)
        assert found.keys() == SPACE.open.keys()


def test_few_trials_and_failures_say_nothing() -> None:
    assert importance(SPACE, trials(0.5, 0.0)[:5]) == {}
    failure = Trial(9, {**SPACE.fixed, "fused": True, "cast": "off", "workers": 0}, Failure("hung", "it did"), 2.0)
    every = trials(0.5, 0.0)
    assert importance(SPACE, [*every, failure]) == importance(SPACE, every)


def test_trials_that_are_all_alike_have_no_deciding_knob() -> None:
    alike = [trial(number, {"threads": 2, "fused": True, "cast": "off", "workers": 0}, 9.0) for number in range(1, 9)]
    assert importance(SPACE, alike) == {}
