"""A training's file that is edited while it is tuned is told, once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autoaccel.records.progress import Event, Note
from autoaccel.runs.changed_file import FileWatch
from autoaccel.runs.workloads import find_workload

PASSED_ON = Note("the next event")


def notes_after(watch: FileWatch, heard: list[Event]) -> list[str]:
    heard.clear()
    watch(PASSED_ON)
    assert heard[0] == PASSED_ON
    return [event.text for event in heard[1:] if isinstance(event, Note)]


def test_an_edit_is_told_once_and_a_mere_touch_is_not(tmp_path: Path) -> None:
    file, heard = tmp_path / "train.py", list[Event]()
    file.write_text("epochs = 3\n")
    watch = FileWatch(find_workload(str(file)), heard.append)
    assert notes_after(watch, heard) == []
    os.utime(file, (1.0, 1.0))
    assert notes_after(watch, heard) == []
    file.write_text("epochs = 5\n")
    (told,) = notes_after(watch, heard)
    assert told.startswith("train.py has changed since the run began") and "put the file back" in told
    assert notes_after(watch, heard) == []


def test_a_file_that_is_gone_has_changed(tmp_path: Path) -> None:
    file, heard = tmp_path / "train.py", list[Event]()
    file.write_text("epochs = 3\n")
    watch = FileWatch(find_workload(str(file)), heard.append)
    file.unlink()
    assert len(notes_after(watch, heard)) == 1


def test_of_a_launcher_the_script_counts_that_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    launcher, script, heard = tmp_path / "torchrun", tmp_path / "train.py", list[Event]()
    launcher.write_text("#!/usr/bin/python\n")
    script.write_text("epochs = 3\n")
    watch = FileWatch(find_workload(str(launcher), ["--nproc_per_node", "2", "train.py"]), heard.append)
    script.write_text("epochs = 5\n")
    assert len(notes_after(watch, heard)) == 1
