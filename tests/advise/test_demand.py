"""What a training needs, by its profile."""

from __future__ import annotations

import msgspec
import pytest

from autoaccel.advise.demand import demand_of
from autoaccel.records.profile import MemoryPeak
from autoaccel.records.workload import TrainingFacts

from .samples import CONDITIONS, profile

WAITS = profile({"data wait": 0.4}, step_seconds=0.5)


def test_what_loading_takes_is_that_of_samples_and_of_making_a_batch(facts: TrainingFacts) -> None:
    found = demand_of(WAITS, CONDITIONS, facts)
    # 64 samples of 1 ms, and 10 µs for the batch.
    assert found.loading_seconds == pytest.approx(0.06401)
    assert found.busy_seconds == pytest.approx(0.06401)
    assert found.step_seconds == pytest.approx(0.3)
    assert found.peak_bytes == WAITS.peak_bytes


def test_of_the_peak_what_grows_with_the_batch_is_told_apart(facts: TrainingFacts) -> None:
    """Neither gradients do, nor what an update makes of them."""
    seen = msgspec.structs.replace(WAITS, parameters=1000, memory=MemoryPeak(50_000, "backward"))
    assert demand_of(seen, None, facts).batch_bytes == 50_000 - 2 * 4 * 1000
    small = msgspec.structs.replace(WAITS, parameters=1000, memory=MemoryPeak(5_000, "backward"))
    assert demand_of(small, None, facts).batch_bytes == 0
    assert demand_of(msgspec.structs.replace(WAITS, memory=None), None, facts).batch_bytes is None


def test_without_a_look_at_samples_a_training_that_loads_for_itself_shows_it(facts: TrainingFacts) -> None:
    assert demand_of(WAITS, None, facts).loading_seconds == pytest.approx(0.2)
    with_workers = msgspec.structs.replace(facts, loader_workers=2)
    assert demand_of(WAITS, None, with_workers).loading_seconds is None
