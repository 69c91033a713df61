"""Settings that need more memory than there is are no trial, and say why; what may fit stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from autoaccel.records.profile import Demand
from autoaccel.records.space import SearchSpace
from autoaccel.space.knobs import KnobContext
from autoaccel.space.room import fit_together
from autoaccel.space.search_space import load_space

GIB = 1 << 30


@pytest.fixture
def space_of(context: KnobContext, tmp_path: Path) -> Callable[..., SearchSpace]:
    """Return a function that gives the space of a training on a computer of 16 GiB."""
    file = tmp_path / "space.toml"

    def space(
        peak_gib: float, batch_gib: float | None, *knobs: str, device: str = "cpu", memory_gib: int = 16
    ) -> SearchSpace:
        lines = [f'"{name}" = "all"' for name in ("optimizer.batch_factor", *knobs)]
        file.write_text("\n".join(['title = "memory"', "[knobs]", *lines]))
        batch_bytes = None if batch_gib is None else int(batch_gib * GIB)
        assert context.training is not None
        here = KnobContext(
            msgspec.structs.replace(context.machine, memory_bytes=memory_gib * GIB),
            msgspec.structs.replace(context.training, device=device),
            Demand(1.0, int(peak_gib * GIB), batch_bytes=batch_bytes),
        )
        return load_space(str(file), here)

    return space


def test_a_batch_that_cannot_fit_is_no_value(space_of: Callable[..., SearchSpace]) -> None:
    # Beside 5 GiB of the user's own: 7 GiB with twice the samples, 11 GiB with four times as many.
    assert set(space_of(5, 2).open["optimizer.batch_factor"]) == {1.0, 2.0, 4.0, 0.5}
    assert set(space_of(5, 2.1).open["optimizer.batch_factor"]) == {1.0, 2.0, 0.5}
    assert set(space_of(5, 2.1, memory_gib=20).open["optimizer.batch_factor"]) == {1.0, 2.0, 4.0, 0.5}


def test_a_combination_that_cannot_fit_says_why(space_of: Callable[..., SearchSpace], context: KnobContext) -> None:
    space = space_of(7, 6, "optimizer.accumulation")
    (reason,) = {rule.reason for rule in space.forbidden if rule.settings["optimizer.batch_factor"] == 2.0}
    assert reason == "it takes at least 13 GiB beside the 7 GiB of your own training, but there are only 16 GiB"
    assert not space.allows({**space.fixed, "optimizer.batch_factor": 2.0, "optimizer.accumulation": 1})
    assert space.allows({**space.fixed, "optimizer.batch_factor": 2.0, "optimizer.accumulation": 2})
    assert space.allows({**space.fixed, "optimizer.batch_factor": 1.0, "optimizer.accumulation": 1})


def test_what_saves_memory_may_fit(space_of: Callable[..., SearchSpace]) -> None:
    space = space_of(5, 4, "precision.autocast")
    assert not space.allows({**space.fixed, "optimizer.batch_factor": 4.0, "precision.autocast": "off"})  # 17 GiB
    assert space.allows({**space.fixed, "optimizer.batch_factor": 4.0, "precision.autocast": "bfloat16"})


def test_alone_it_has_all_of_the_memory(space_of: Callable[..., SearchSpace]) -> None:
    """Where two do not fit together, a trial is measured after its baseline has ended."""
    assert not fit_together(9 * GIB, 16 * GIB) and fit_together(8 * GIB, 16 * GIB)
    assert set(space_of(9, 6).open["optimizer.batch_factor"]) == {1.0, 2.0, 0.5}


@pytest.mark.parametrize(("batch_gib", "device"), [(None, "cpu"), (0, "cpu"), (6, "cuda")])
def test_where_nothing_is_known_or_harmed_everything_is_tried(
    space_of: Callable[..., SearchSpace], batch_gib: float | None, device: str
) -> None:
    assert set(space_of(7, batch_gib, device=device).open["optimizer.batch_factor"]) == {1.0, 2.0, 4.0, 0.5}
