"""What a run leaves for the next one of the same training."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from autoaccel.live.memory import Memory
from autoaccel.records.live import Remembered
from autoaccel.records.machine import Machine
from autoaccel.records.messages import TuneLive
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison
from autoaccel.runs.history import History

FOUND: Settings = {"layout.channels_last": True}
WORTH = Comparison(1.5, 1.4, 1.6, "faster", 0.95, process_pairs=4, turns=32)
TASK = TuneLive("default", "runs", training="/train.py", training_key="0123456789")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "autoaccel" / "history"


def test_runs_are_counted_and_one_that_measured_nothing_leaves_what_was_known(folder: Path, machine: Machine) -> None:
    said: list[str] = []
    first = Memory(TASK, machine, said.append)
    assert first.entry is None
    first.keep(FOUND, WORTH, searched=False)
    first.keep(FOUND, WORTH, searched=True)  # at its end
    second = Memory(TASK, machine, said.append)
    assert second.entry is not None
    assert (second.entry.settings, second.entry.runs, second.entry.searched) == (FOUND, 1, True)
    second.keep(FOUND, None, searched=False)  # it goes on with that, and may be killed
    third = Memory(TASK, machine, said.append).entry
    assert third is not None
    assert (third.runs, third.searched, third.speedup, third.low, third.high) == (2, True, 1.5, 1.4, 1.6)
    second.keep({"threads.intra_op": 1}, None, searched=True)
    other = Memory(TASK, machine, said.append).entry
    assert other is not None
    assert (other.runs, other.speedup) == (1, None)
    second.keep({}, None, searched=True)
    assert Memory(TASK, machine, said.append).entry is None
    assert not said


def test_without_a_key_nothing_is_read_or_written(folder: Path, machine: Machine) -> None:
    memory = Memory(msgspec.structs.replace(TASK, training_key=""), machine, pytest.fail)
    memory.keep(FOUND, WORTH, searched=True)
    assert not folder.exists()


def test_what_cannot_be_read_or_written_is_said_and_stops_nothing(folder: Path, machine: Machine) -> None:
    said: list[str] = []
    Memory(TASK, machine, said.append).keep(FOUND, WORTH, searched=True)
    (path,) = folder.iterdir()
    path.write_bytes(msgspec.json.encode({"schema": "another"}))
    damaged = Memory(TASK, machine, said.append)
    assert damaged.entry is None
    assert str(path) in said[0]
    path.unlink()
    folder.rmdir()
    folder.write_text("not a folder")
    damaged.keep(FOUND, WORTH, searched=True)
    assert "not kept for the next run" in said[1]
    damaged.keep(FOUND, WORTH, searched=True)
    assert len(said) == 2


def test_an_entry_of_another_user_is_left_aside(
    folder: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    Memory(TASK, machine, said.append).keep(FOUND, WORTH, searched=True)
    assert isinstance(next(iter(dict(History().entries()).values())), Remembered)
    monkeypatch.setattr("os.geteuid", lambda: 12_345)
    assert Memory(TASK, machine, said.append).entry is None
    assert "belongs to another user" in said[0]
