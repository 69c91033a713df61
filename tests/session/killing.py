"""Kill a tune at some moment, and resume it by the command that it has printed."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import psutil

RESUME = "If this run is interrupted, resume it with: "
KEPT = ("trials.jsonl", "proof.jsonl", "contenders.jsonl", "contributions.jsonl")
"""What holds a line for each thing that is finished."""


class Part(NamedTuple):
    """One part of a run, from its start to its end or its death."""

    resume: list[str]  # the arguments of the command that resumes it
    last: str  # what it printed last
    exit_code: int
    output: str
    pids: frozenset[int]  # of the processes that it had when it was killed


def run_part(
    arguments: list[str], folder: Path, environment: Mapping[str, str], is_time: Callable[[str, float], bool]
) -> Part:
    """Run a tune until it ends or it is time to kill it.

    Args:
        arguments: Of autoaccel.
        folder: To run it in.
        environment: More variables.
        is_time: Asked again and again with all that it has printed, and the seconds since it printed the command that
            resumes it.
    """
    command = [sys.executable, "-m", "autoaccel", *arguments]
    tuner = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env={**os.environ, **environment},
    )
    assert tuner.stdout is not None
    os.set_blocking(tuner.stdout.fileno(), False)
    output, printed_at = "", 0.0
    pids: frozenset[int] = frozenset()
    while tuner.poll() is None:
        with contextlib.suppress(TypeError):  # there is nothing to read yet
            output += tuner.stdout.read() or ""
        if not printed_at and RESUME in output:
            printed_at = time.monotonic()
        if printed_at and is_time(output, time.monotonic() - printed_at):
            with contextlib.suppress(psutil.NoSuchProcess):
                pids = frozenset(one.pid for one in psutil.Process(tuner.pid).children(recursive=True))
            tuner.send_signal(signal.SIGKILL)
            tuner.wait()
            break
        time.sleep(0.02)
    os.set_blocking(tuner.stdout.fileno(), True)
    output += tuner.stdout.read()
    tuner.stdout.close()
    resume = [line.removeprefix(RESUME) for line in output.splitlines() if line.startswith(RESUME)]
    last = (output.splitlines() or [""])[-1]
    return Part(shlex.split(resume[0])[1:] if resume else [], last, tuner.wait(), output, pids)


def kept_lines(run: Path) -> dict[str, list[str]]:
    """Return what a run has finished: the whole lines of each file."""
    found = {name: (run / name).read_bytes() if (run / name).exists() else b"" for name in KEPT}
    return {name: data.decode().split("\n")[:-1] for name, data in found.items()}


def is_kept(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> bool:
    """Whether all that was finished still is, in its order; what is known of a trial may have become more."""

    def numbers(lines: list[str]) -> list[str]:
        return [re.search(r'"number":\d+,"settings":\{[^}]*\}', line)[0] for line in lines]  # type: ignore[index]

    trials = numbers(after["trials.jsonl"])[: len(before["trials.jsonl"])] == numbers(before["trials.jsonl"])
    return trials and all(after[name][: len(before[name])] == before[name] for name in KEPT[1:])


def left_after(pids: frozenset[int], seconds: float) -> list[int]:
    """Return which processes of a killed run still run after so long; a zombie does not."""
    until = time.monotonic() + seconds
    while left := [pid for pid in pids if _runs(pid)]:
        if time.monotonic() > until:
            return left
        time.sleep(0.05)
    return []


def _runs(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False
