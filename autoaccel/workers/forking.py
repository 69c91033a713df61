"""The fork server's own process: it has imported what every worker needs, and forks one for each request.

It never runs an operator, builds nothing and calls none of the user's code: a worker inherits only what an
import leaves behind. A worker that cannot be sure of that starts again as a new program.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from typing import NamedTuple, NoReturn

import msgspec

from autoaccel.records.base import Record, decode, encode
from autoaccel.runtime import worker
from autoaccel.runtime.vision import watch_for_torchvision
from autoaccel.workers.keeping import keep

LENGTH_BYTES = 4  # they precede a request and say how long it is; the descriptors come with them

START = "import sys; sys.path[:] = [p for p in sys.path if p]; from autoaccel.{module} import main; main()"
"""How a process of ours is started. Not `-m`: before Python 3.11 that cannot be told to leave the working folder off
sys.path, where a user's json.py would shadow the library's."""


class ForkRequest(Record, frozen=True):
    """What a worker is to start with; its channel, the line of its keeper and its log, if any, come as descriptors."""

    environment: dict[str, str]
    modules: tuple[str, ...]  # imported before the fork


class Forked(Record, frozen=True):
    """The first line of a keeper that was forked; those that follow are as of any other (`workers/keeping.py`)."""

    import_seconds: dict[str, float]  # that each import took which the worker is spared


class _Received(NamedTuple):
    """A request, and the descriptors that came with it."""

    request: ForkRequest
    channel: int
    control: int  # the keeper's line
    log: list[int]  # one, or none


class Server:
    """The loop of the fork server: requests in, workers with their keepers out."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._import_seconds: dict[str, float] = {}
        self._environment = dict(os.environ)
        self._keepers: set[int] = set()

    def serve(self) -> None:
        """Serve until the tuner closes the connection."""
        while (received := self._receive_request()) is not None:
            self._serve_request(received)

    def _serve_request(self, received: _Received) -> None:
        for name in received.request.modules:
            self._import(name)
        server = os.getpid()
        threads = threading.active_count()  # asked here: the child does not see threads that were not forked
        with warnings.catch_warnings():
            # Of forking with native threads around (OpenBLAS), as every DataLoader on Linux does.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            self._become_worker(received, server, threads)
        self._keepers.add(pid)
        for descriptor in (received.channel, received.control, *received.log):
            os.close(descriptor)
        # Each by its number: a child that some module started must be left to that module.
        for keeper in list(self._keepers):
            with contextlib.suppress(ChildProcessError):  # some module has waited for every child
                if os.waitpid(keeper, os.WNOHANG)[0] == 0:
                    continue
            self._keepers.remove(keeper)

    def _receive_request(self) -> _Received | None:
        """Return a request; None if no more will come."""
        length, descriptors, _, _ = socket.recv_fds(self._connection, LENGTH_BYTES, 3)
        if len(length) < LENGTH_BYTES:
            return None
        text = b""
        while len(text) < int.from_bytes(length, "big"):
            more = self._connection.recv(1 << 16)
            if not more:
                return None
            text += more
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # received ones are not, unlike those that Python opens
        channel, control, *log = descriptors
        return _Received(decode(text, ForkRequest), channel, control, log)

    def _import(self, name: str) -> None:
        if name in self._import_seconds:
            return
        start = time.perf_counter()
        # Whatever is wrong with it, the worker that needs it fails at it again, and reports it.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
        self._import_seconds[name] = time.perf_counter() - start

    def _become_worker(self, received: _Received, server: int, threads: int) -> NoReturn:
        """Become the worker of a request, below a keeper, in a process that was forked from the server with threads."""
        request, channel = received.request, received.channel
        is_like_new = threads == 1 and _can_use_its_driver()
        # A worker that starts again as a new program imports everything itself.
        spared = request.modules if is_like_new else ()
        with contextlib.suppress(OSError):  # the tuner no longer waits for it
            told = encode(Forked({name: self._import_seconds[name] for name in spared}))
            os.write(received.control, told + b"\n")
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        keep(received.control, server, adopts=True, log=received.log[0] if received.log else None)
        self._connection.close()
        for descriptor in received.log:
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            os.close(descriptor)
        changed_by_imports = {name: value for name, value in os.environ.items() if self._environment.get(name) != value}
        os.environ.clear()
        os.environ.update({**changed_by_imports, **request.environment})
        if not is_like_new:
            os.set_inheritable(channel, True)
            command = [sys.executable, "-u", "-c", START.format(module="runtime.worker"), str(channel)]
            os.execve(sys.executable, command, dict(request.environment))
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed()  # from the system, as in a new process; Python's own generator does it after a fork
        tempfile.tempdir = None  # this process has another than the server
        sys.argv = ["-c", str(channel)]
        worker.main()


def _can_use_its_driver() -> bool:
    """Whether CUDA can be used after the fork: not if an import has asked it anything, even the number of devices.

    Only the forked process can tell: before the fork nothing is wrong.
    """
    torch = sys.modules.get("torch")
    return torch is None or not (torch.cuda.is_initialized() or torch.cuda._is_in_bad_fork())


def main() -> None:
    """Serve the connection whose descriptor is the argument."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)
    watch_for_torchvision()  # what it imports, users' files find imported
    # The tuner is gone, or whoever has interrupted it has interrupted this process as well.
    with contextlib.suppress(ConnectionError, msgspec.MsgspecError, KeyboardInterrupt):
        Server(connection).serve()
    os._exit(0)
