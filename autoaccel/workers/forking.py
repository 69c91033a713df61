"""The fork server's own process: it has imported what every worker needs, and forks one for each request.

It never runs an operator, builds nothing and calls none of the user's code: a worker inherits only what an
import leaves behind. A worker that cannot be sure of that starts again as a new program.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import selectors
import signal
import socket
import sys
import threading
import time
import warnings
from typing import NamedTuple

import msgspec

from autoaccel.records.base import Record, decode, encode
from autoaccel.runtime import worker
from autoaccel.runtime.vision import watch_for_torchvision

LENGTH_BYTES = 4  # they precede a request and say how long it is; the descriptors come with them

START = "import sys; sys.path[:] = [p for p in sys.path if p]; from autoaccel.{module} import main; main()"
"""How a process of ours is started. Not `-m`: before Python 3.11 that cannot be told to leave the working folder off
sys.path, where a user's json.py would shadow the library's."""


class ForkRequest(Record, frozen=True):
    """What a worker is to start with; its channel, its status pipe and its log, if any, come as descriptors."""

    environment: dict[str, str]
    modules: tuple[str, ...]  # imported before the fork


class Forked(Record, frozen=True):
    """The first line on the status pipe; the second is the exit code, negative if a signal ended the process."""

    pid: int
    import_seconds: dict[str, float]  # that each import took which the worker is spared


class _Received(NamedTuple):
    """A request, and the descriptors that came with it."""

    request: ForkRequest
    channel: int
    status: int  # the pipe
    log: list[int]  # one, or none


class Server:
    """The loop of the fork server: requests in, processes and their exit codes out."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._import_seconds: dict[str, float] = {}
        self._environment = dict(os.environ)
        self._status: dict[int, int] = {}  # process of a worker -> descriptor of its status pipe
        self._woken, self._wake = socket.socketpair()
        for end in (self._woken, self._wake):
            end.setblocking(False)

    def serve(self) -> None:
        """Serve until the tuner closes the connection."""
        self._watch_children()
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._woken:
                        self._woken.recv(4096)
                        self._report_ended()
                    elif not self._serve_request():
                        return

    def _watch_children(self) -> None:
        """Ask to be woken when a child ends; repeated, because an import may have changed that."""
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)

    def _serve_request(self) -> bool:
        """Fork for one request; return False if there will be no more."""
        received = self._receive_request()
        if received is None:
            return False
        request = received.request
        for name in request.modules:
            self._import(name)
        self._watch_children()
        server = os.getpid()
        told, tell = os.pipe()
        threads = threading.active_count()  # asked here: the child does not see threads that were not forked
        with warnings.catch_warnings():
            # Of forking with native threads around (OpenBLAS), as every DataLoader on Linux does.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            worker.die_with_parent(server)
            os.close(received.status)
            is_like_new = threads == 1 and _can_use_its_driver()
            os.write(tell, b"1" if is_like_new else b"0")
            for end in (told, tell):
                os.close(end)
            self._become_worker(received, server, is_like_new)
        with contextlib.suppress(OSError):  # the child has done it first
            os.setpgid(pid, pid)
        os.close(tell)
        # A worker that starts again as a new program imports everything itself.
        spared = request.modules if os.read(told, 1) == b"1" else ()
        os.close(told)
        import_seconds = {name: self._import_seconds[name] for name in spared}
        with contextlib.suppress(BrokenPipeError):  # the tuner no longer waits for it
            os.write(received.status, encode(Forked(pid, import_seconds)) + b"\n")
        self._status[pid] = received.status
        for descriptor in (received.channel, *received.log):
            os.close(descriptor)
        return True

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
        channel, status, *log = descriptors
        return _Received(decode(text, ForkRequest), channel, status, log)

    def _import(self, name: str) -> None:
        if name in self._import_seconds:
            return
        start = time.perf_counter()
        # Whatever is wrong with it, the worker that needs it fails at it again, and reports it.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
        self._import_seconds[name] = time.perf_counter() - start

    def _report_ended(self) -> None:
        # Each by its number: a child that some module started must be left to that module.
        for worker_pid, descriptor in list(self._status.items()):
            try:
                pid, status = os.waitpid(worker_pid, os.WNOHANG)
            except ChildProcessError:  # some module has waited for every child
                pid, status = worker_pid, int(signal.SIGKILL)
            if pid == 0:
                continue
            del self._status[worker_pid]
            with contextlib.suppress(BrokenPipeError):  # the tuner no longer waits for it
                os.write(descriptor, b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(descriptor)

    def _become_worker(self, received: _Received, server: int, is_like_new: bool) -> None:
        request, channel = received.request, received.channel
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (self._connection, self._woken, self._wake):
            end.close()
        for descriptor in self._status.values():
            os.close(descriptor)
        for descriptor in received.log:
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            os.close(descriptor)
        changed_by_imports = {name: value for name, value in os.environ.items() if self._environment.get(name) != value}
        os.environ.clear()
        os.environ.update({**changed_by_imports, **request.environment})
        if not is_like_new:
            os.set_inheritable(channel, True)
            start = START.format(module="runtime.worker")
            command = [sys.executable, "-u", "-c", start, str(channel), str(server)]
            os.execve(sys.executable, command, dict(request.environment))
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed()  # from the system, as in a new process; Python's own generator does it after a fork
        sys.argv = ["-c", str(channel), str(server)]
        worker.main()


def _can_use_its_driver() -> bool:
    """Whether CUDA can be used after the fork: not if an import has asked it anything, even the number of devices.

    Only the forked process can tell: before the fork nothing is wrong.
    """
    torch = sys.modules.get("torch")
    return torch is None or not (torch.cuda.is_initialized() or torch.cuda._is_in_bad_fork())


def main() -> None:
    """Serve the connection whose descriptor is the first argument; the second is the parent's process number."""
    worker.die_with_parent(int(sys.argv[2]))
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)
    watch_for_torchvision()  # what it imports, users' files find imported
    # The tuner is gone, or whoever has interrupted it has interrupted this process as well.
    with contextlib.suppress(ConnectionError, msgspec.MsgspecError, KeyboardInterrupt):
        Server(connection).serve()
    os._exit(0)
