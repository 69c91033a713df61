"""Guard: ends what is left of stopped workers when the tuner itself was killed."""

from __future__ import annotations

import contextlib
import subprocess
import sys

_CLOSE_SECONDS = 5.0  # for the guard's process to end once it is told to

_PROGRAM = """
import os, signal, sys
groups = set()
for line in sys.stdin.buffer:
    group = int(line)
    groups.add(group) if group > 0 else groups.discard(-group)
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""
"""Every number that it reads is a group to watch, negative: to watch no longer. At the end it kills the watched."""


class Guard:
    """A small process beside the tuner that outlives it for a moment, and kills the process groups it was told of.

    A worker dies with the tuner, but its loader workers do not: they wait for their parent's end by looking for it, and
    between two turns they are stopped. The kernel lets stopped orphans go on only where whoever adopts them belongs to
    another session; the first process of a container need not.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # what is sent to the tuner's group must not reach it
        )

    def watch(self, group: int) -> None:
        """Kill this process group should the tuner be gone before `forget` was called."""
        self._tell(group)

    def forget(self, group: int) -> None:
        """Leave a group alone that was watched: it is gone, and its number may be another's soon."""
        self._tell(-group)

    def close(self) -> None:
        """Kill what is still watched, and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_SECONDS)

    def _tell(self, number: int) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # somebody killed it: without it all else works
            self._process.stdin.write(b"%d\n" % number)
