"""The worker: a process with a short life. It reads a spec, does one task, answers, and is gone.

It is started with one end of a socket as its argument. Specs and turns arrive there, answers leave there, as lines of
JSON; stdout and stderr are the user's. It imports nothing that schedules, searches or decides.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import BinaryIO, NoReturn

from autoaccel.records.base import Record, decode, encode
from autoaccel.records.messages import WorkerSpec
from autoaccel.runtime.hosting import host
from autoaccel.runtime.streams import end_process, flush_streams

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Channel:
    """The worker's end of the socket to the tuner."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        # No program that the user's code starts, nor a forked loader worker, must hold the channel open: its end tells
        # the tuner that this process died.
        self._socket.set_inheritable(False)
        os.register_at_fork(after_in_child=self._let_go)
        self._lines: BinaryIO = self._socket.makefile("rb")

    def _let_go(self) -> None:
        """Close the descriptor, once: in a child of this child its number may be that of another file."""
        descriptor = self._socket.detach()
        if descriptor >= 0:
            os.close(descriptor)

    def fileno(self) -> int:
        """Return its descriptor."""
        return self._socket.fileno()

    def read(self) -> bytes:
        """Return the next line, empty if the tuner is gone."""
        return self._lines.readline()

    def write(self, message: Record) -> None:
        """Send one message."""
        self._socket.sendall(encode(message) + b"\n")


def die_with_parent(parent: int) -> None:
    """Make the kernel kill this process when its parent dies, even by SIGKILL.

    Args:
        parent: The process to die with; if that is dead already, this one ends at once.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before it could be watched
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> NoReturn:
    """Serve one spec; see the module's docstring."""
    work(_serve)


def _serve(spec: WorkerSpec, channel: Channel) -> Record | None:
    # After the handlers in work(): importing torch is the first thing that can crash or hang.
    from autoaccel.runtime.tasks import serve

    return serve(spec, channel)


def work(serve: Callable[[WorkerSpec, Channel], Record | None]) -> NoReturn:
    """Read a spec, serve it, answer, and be gone.

    Args:
        serve: Does the task; returns its answer, or None if it was given before.
    """
    faulthandler.enable()  # a crash in native code prints the Python line it came from
    faulthandler.register(signal.SIGUSR1)  # the tuner asks where a hung process is
    host()
    channel = Channel(int(sys.argv[1]))
    spec = decode(channel.read(), WorkerSpec)
    answer = serve(spec, channel)
    flush_streams()
    if answer is not None:
        channel.write(answer)
    # Not a normal exit: libraries' exit handlers may hang or abort after the work is done and told.
    end_process(0)
