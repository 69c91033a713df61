"""What is remembered of trainings: one file each, the user's own, and ignored where it is damaged or another's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from autoaccel.errors import BadRequestError
from autoaccel.records.live import HISTORY_SCHEMA, Remembered
from autoaccel.records.machine import Machine
from autoaccel.records.workload import Script
from autoaccel.runs.history import History, entry_name, training_key

ENTRY = Remembered(
    schema=HISTORY_SCHEMA,
    training="/home/me/train.py",
    machine="a processor",
    torch="2.13.0",
    ended="2026-11-30T07:00:00+00:00",
    runs=2,
    settings={"memory.keep_freed": True},
    speedup=1.3,
    low=1.2,
    high=1.4,
    searched=True,
)


def history(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autoaccel", "history", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "XDG_CACHE_HOME": str(folder), "COLUMNS": "100"})  # fmt: skip


def test_what_is_written_is_read_again_and_is_the_users_own(tmp_path: Path) -> None:
    kept = History(tmp_path / "history")
    assert kept.read("0123456789") is None
    kept.write("0123456789", ENTRY)
    assert kept.read("0123456789") == ENTRY
    (path,) = kept.folder.iterdir()
    assert (path.stat().st_mode & 0o777, kept.folder.stat().st_mode & 0o777) == (0o600, 0o700)
    kept.forget("0123456789")
    kept.forget("0123456789")
    assert list(kept.entries()) == []


def test_a_training_is_another_with_other_arguments_which_are_not_kept() -> None:
    one = Script("/home/me/train.py", "train.py", "/home/me", "0" * 64, ("--token", "secret"))
    other = msgspec.structs.replace(one, arguments=("--token", "another"))
    assert training_key(one) != training_key(other)
    assert training_key(one) == training_key(msgspec.structs.replace(one, sha256="1" * 64))
    assert "secret" not in training_key(one)


def test_a_machine_and_a_torch_have_an_entry_of_their_own(machine: Machine) -> None:
    other = msgspec.structs.replace(machine, cpu=msgspec.structs.replace(machine.cpu, model="another"))
    names = {entry_name("0123456789", *of) for of in ((machine, "2.13.0"), (machine, "2.14.0"), (other, "2.13.0"))}
    assert len(names) == 3


def test_commands_list_show_and_clear(tmp_path: Path) -> None:
    assert "nothing is remembered" in history(tmp_path).stdout
    kept = History(tmp_path / "autoaccel" / "history")
    kept.write("0123456789", ENTRY)
    kept.write("9876543210", msgspec.structs.replace(ENTRY, speedup=None, low=None, high=None, training="/other.py"))
    listed = history(tmp_path).stdout
    assert re.search(r"0123456789 +train.py +keep_freed=on +1.30x \(1.20 to 1.40\) +2026-11-30", listed), listed
    assert "other.py" in listed
    shown = history(tmp_path, "show", "0123456789").stdout
    assert "2 runs" in shown
    assert "other.py" not in shown
    assert json.loads(history(tmp_path, "--json").stdout)["9876543210"]["training"] == "/other.py"
    assert "1 entry removed" in history(tmp_path, "clear", "0123456789").stdout
    assert "1 entry removed" in history(tmp_path, "clear").stdout
    assert "nothing is remembered" in history(tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "words"), [(("show",), "name an entry"), (("show", "none"), "no such entry"), (("gone",), "choose")]
)
def test_what_cannot_be_done_is_said_in_a_sentence(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = history(tmp_path, *arguments)
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.parametrize("text", ["", "{}", "[" * 100_000, '{"schema": "autoaccel/history/2"}'])
def test_a_damaged_entry_is_told_and_can_be_cleared(tmp_path: Path, text: str) -> None:
    kept = History(tmp_path / "autoaccel" / "history")
    kept.write("0123456789", ENTRY)
    (kept.folder / "0123456789.json").write_text(text)
    with pytest.raises(BadRequestError, match="0123456789"):
        kept.read("0123456789")
    done = history(tmp_path)
    assert done.returncode == 0
    assert "0123456789.json: this is not an entry of the history" in done.stderr
    assert "removed" in history(tmp_path, "clear", "0123456789").stdout
