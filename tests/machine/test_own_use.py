"""Measurements of one user wait for one another where they would share CPUs or GPUs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autoaccel.machine import own_use
from autoaccel.machine.own_use import SIDE_BY_SIDE, machine_to_itself

MEASURE = """
import subprocess, sys, time
from pathlib import Path
from autoaccel.machine import own_use
own_use._folder = lambda: Path(sys.argv[1])
own_use._places = lambda: [int(place) for place in sys.argv[2].split(",")]
with own_use.machine_to_itself(lambda sentence: print("said", sentence, flush=True)):
    worker = subprocess.Popen(["sleep", "60"], close_fds=False)
    print("measures", worker.pid, flush=True)
    sys.stdin.read()
    worker.kill()
"""


@contextmanager
def measuring(folder: Path, places: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    environment = {name: value for name, value in os.environ.items() if name != SIDE_BY_SIDE} | variables
    with subprocess.Popen(
        [sys.executable, "-c", MEASURE, folder, places],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    ) as process:  # fmt: skip
        yield process
        process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_the_second_waits_and_says_for_whom_until_the_first_is_gone(tmp_path: Path) -> None:
    """Whatever the first has started: a worker that outlives it holds nothing."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(measuring(tmp_path / "own", "0,1"))
        worker = int(line_of(first).split()[1])
        second = stack.enter_context(measuring(tmp_path / "own", "1,2"))
        assert line_of(second).startswith(f"said waiting for process {first.pid}, which measures on the same CPUs")
        with measuring(tmp_path / "own", "3") as apart:  # on other CPUs
            assert line_of(apart).startswith("measures")
        with measuring(tmp_path / "own", "1", **{SIDE_BY_SIDE: "1"}) as beside:
            assert f"process {first.pid} measures on the same CPUs or GPUs, and each" in line_of(beside)
            assert line_of(beside).startswith("measures")
        assert second.poll() is None
        first.send_signal(signal.SIGKILL)
        assert line_of(second).startswith("measures")
        os.kill(worker, signal.SIGKILL)


def test_who_waits_for_nobody_says_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        with measuring(tmp_path / "own", "0,1048577") as one:
            assert line_of(one).startswith("measures")
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["link", "open"])
def test_a_folder_that_others_may_have_made_is_not_used(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / "own", tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if kind == "link":
        folder.symlink_to(elsewhere)
    else:
        folder.mkdir()
        folder.chmod(0o777)
    monkeypatch.setattr(own_use, "_folder", lambda: folder)
    said: list[str] = []
    with machine_to_itself(said.append):
        assert list(elsewhere.iterdir()) == [] and "cannot be waited for" in said[-1]


def test_cpus_of_one_core_are_claimed_as_one() -> None:
    places = own_use._places()
    assert places == sorted(places) and set(places) & os.sched_getaffinity(0) and max(places) >= 0


@pytest.mark.parametrize(
    ("line", "measures"),
    [
        (["/usr/bin/python3", "/home/ada/.venv/bin/autoaccel", "tune", "train.py"], True),
        (["python", "-m", "autoaccel", "verify", "recipe.json"], True),
        (["autoaccel", "run", "recipe.json"], False),
        (["vim", "tune", "autoaccel"], False),
        ([], False),
    ],
)
def test_measurements_of_others_are_told_by_their_command(line: list[str], measures: bool) -> None:
    assert own_use._measures(line) is measures
