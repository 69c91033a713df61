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
    except OSError:  # the group has ended by itself
        pass
"""
"""A number that it reads is a group to watch; a negative one is a group to forget. At the end of its input it kills all
groups that it still watches."""


class Guard:
    """A small process that outlives the tuner for a moment, and kills the process groups that it was told of.

    A worker dies with the tuner, but its loader workers do not: they find out that their parent is gone only by
    checking, and between two turns they are stopped. The kernel continues stopped orphans only if the process that
    adopts them belongs to another session, which the first process of a container need not.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # signals to the tuner's group must not reach it
        )

    def watch(self, group: int) -> None:
        """Kill this process group if the tuner ends before it calls `forget`."""
        self._tell(group)

    def forget(self, group: int) -> None:
        """Stop watching a group: it is gone, and another may get its number."""
        self._tell(-group)

    def close(self) -> None:
        """Kill the groups that are still watched, and end the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it ends by itself, as its input has
            self._process.wait(_CLOSE_SECONDS)

    def _tell(self, number: int) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # somebody killed it; everything else works without it
            self._process.stdin.write(b"%d\n" % number)
