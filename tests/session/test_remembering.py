"""What `autoaccel run` has found of a training while it trained is what `autoaccel tune` tries first."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from autoaccel.machine.torch_version import read_torch_version
from autoaccel.records.machine import Machine
from autoaccel.records.progress import Note, TrialStarted
from autoaccel.records.settings import Settings, changed
from autoaccel.records.workload import BuildFunction
from autoaccel.runs.history import History, entry_name, training_key
from tests.runs.test_history import ENTRY
from tests.session.known_bench import BASELINE, CAST, RANKS, WORKERS, KnownBench, Tuned, tune

LOGS = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.3, "parallel.world_size=2": 0.2}


@pytest.fixture
def name(tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of the entry of the training, in a history that is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return entry_name(training_key(BuildFunction("model.py", "build", "")), machine, read_torch_version())


def tuned_in(folder: Path, machine: Machine, with_history: bool = True) -> Tuned:
    folder.mkdir()
    return tune(KnownBench(LOGS), folder, machine, with_history=with_history)


def first_of(tuned: Tuned) -> Settings:
    return changed(next(event.settings for event in tuned.events if isinstance(event, TrialStarted)), BASELINE)


@pytest.mark.parametrize("found", [WORKERS, RANKS, {**CAST, **RANKS}])
def test_it_is_tried_first(found: Settings, name: str, tmp_path: Path, machine: Machine) -> None:
    History().write(name, msgspec.structs.replace(ENTRY, settings={**found, "memory.keep_freed": True}))
    tuned = tuned_in(tmp_path / "run", machine)
    assert first_of(tuned) == found  # what is not searched is left out
    assert tuned.found == {**CAST, **WORKERS, **RANKS}
    assert any(isinstance(event, Note) and "tried first" in event.text for event in tuned.events)
    assert first_of(tuned_in(tmp_path / "without", machine, with_history=False)) != found


def test_one_that_is_damaged_is_left_aside_with_a_line(name: str, tmp_path: Path, machine: Machine) -> None:
    History().write(name, ENTRY)
    (tmp_path / "cache" / "autoaccel" / "history" / f"{name}.json").write_text("{")
    tuned = tuned_in(tmp_path / "run", machine)
    assert any(isinstance(event, Note) and "is left aside" in event.text for event in tuned.events)
    assert tuned.found == {**CAST, **WORKERS, **RANKS}
