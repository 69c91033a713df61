"""One process at a time works in the folder of a run, and no process that is gone keeps it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from autoaccel.errors import BadRequestError
from autoaccel.runs.folder_lock import LOCK, FolderLock
from autoaccel.runs.kept_arguments import load_arguments, load_own_arguments, save_arguments
from autoaccel.runs.run_folder import RunFolder

HOLD = """
import subprocess, sys, time
from pathlib import Path
from autoaccel.runs.folder_lock import FolderLock
FolderLock(lock := Path(sys.argv[1])).take()
worker = subprocess.Popen(["sleep", "60"], close_fds=False)
print(worker.pid, flush=True)
time.sleep(60)
"""


def test_the_lock_names_its_owner_and_dies_with_it_whatever_it_has_started(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        worker = int(owner.stdout.readline())
        for refused in (FolderLock(tmp_path).take, FolderLock(tmp_path).refuse_if_held):
            with pytest.raises(BadRequestError, match=rf"process {owner.pid} \(since .*\) is tuning in this folder"):
                refused()
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        try:
            os.kill(worker, 0)  # it is left
            lock = FolderLock(tmp_path)
            lock.take()
            lock.release()
        finally:
            os.kill(worker, signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_its_last_owner_has_removed_meanwhile_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes next makes another, and both would work in the folder."""
    opened: list[int] = []

    def flock(descriptor: int, operation: int) -> None:
        lock_file(descriptor, operation)
        opened.append(descriptor)
        if len(opened) == 1:
            (tmp_path / LOCK).unlink()

    lock_file = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", flock)
    lock = FolderLock(tmp_path)
    lock.take()
    with pytest.raises(BadRequestError, match="is tuning in this folder"):
        FolderLock(tmp_path).take()
    lock.release()


def test_a_run_folder_is_one_processs(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run") as folder:
        for refused in (RunFolder.create, RunFolder.resume):
            with pytest.raises(BadRequestError, match=f"process {os.getpid()} "):
                refused(folder.path)
    assert not (tmp_path / "run").exists()


def test_runs_without_a_name_never_share_a_folder(tmp_path: Path) -> None:
    first, second = RunFolder.create_next("model", tmp_path), RunFolder.create_next("model", tmp_path)
    assert (first.path.name, second.path.name) == ("model-1", "model-2")
    assert first.path.stat().st_mode & 0o777 == 0o700


def test_arguments_are_used_where_they_were_given_alone(tmp_path: Path) -> None:
    """A run folder that somebody has sent may name any: they are data, not what this user wants run."""
    path, copy = tmp_path / "arguments.json", tmp_path / "sent" / "arguments.json"
    save_arguments(path, ("--exec-after", "curl ... | sh"))
    assert load_own_arguments(path) == load_arguments(path) == ("--exec-after", "curl ... | sh")
    assert path.stat().st_mode & 0o777 == 0o600
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    with pytest.raises(BadRequestError, match=r"Give the training's arguments again, after --\.$"):
        load_own_arguments(copy)
    save_arguments(path, ())
    copy.write_bytes(path.read_bytes())
    assert load_own_arguments(copy) == ()
