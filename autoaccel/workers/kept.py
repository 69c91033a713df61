"""KeptProcess: a process and its keeper, seen from the tuner."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from autoaccel.workers.forking import START
from autoaccel.workers.listening import await_news

_START_SECONDS = 60.0  # for a keeper to start, on a computer that does much else
_END_SECONDS = 5.0  # for a keeper to end once it has ended everything

_OWN_GROUP = {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}

_KEEP = START.format(module="workers.keeping")
_OURS = f"{_KEEP}; from autoaccel.{{module}} import main; main()"
_PROGRAM = f"import sys; sys.path += {{path!r}}; {_KEEP}; import os; os.execv(sys.argv[1], sys.argv[1:])"


class KeptProcess:
    """A process whose keeper ends all that came of it: when it is told to, or when this process is gone."""

    def __init__(
        self, control: socket.socket, keeper: subprocess.Popen[str] | subprocess.Popen[bytes] | None = None
    ) -> None:
        """Take the line to its keeper.

        Args:
            control: The socket.
            keeper: The keeper, if it is a child of this process.
        """
        self._control = control
        self._keeper = keeper
        self._received = b""
        self._pid: int | None = None
        self._exit_code: int | None = None
        self.import_seconds: Mapping[str, float] = {}
        """What each import took that it was spared."""

    @property
    def pid(self) -> int | None:
        """Its number, and that of its group; None if it never came to be."""
        self._read_pid(_START_SECONDS)
        return self._pid

    def _read_pid(self, max_seconds: float) -> None:
        if self._pid is None and self._exit_code is None:
            line = self.read_line(max_seconds)
            if line:
                self._pid = int(line)
            elif line is not None:
                self._exit_code = self._exit_code_of_keeper()

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, negative if a signal ended the process.

        Raises:
            subprocess.TimeoutExpired: If it runs for longer.
        """
        deadline = math.inf if timeout is None else time.perf_counter() + timeout
        self._read_pid(deadline - time.perf_counter())
        if self._exit_code is None and self._pid is not None:
            line = self.read_line(deadline - time.perf_counter())
            if line is not None:  # nothing comes if the keeper itself was killed; its process is killed with it
                self._exit_code = int(line or -signal.SIGKILL)
        if self._exit_code is None:
            raise subprocess.TimeoutExpired("a process", timeout or 0.0)
        return self._exit_code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes of its group."""
        if self.pid is not None:
            # Gone; macOS says "not permitted" of a group whose only process is a zombie.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def end(self, max_seconds: float) -> bool:
        """Kill it and all that came of it; return whether all have ended, as they do unless a driver keeps them."""
        with contextlib.suppress(OSError):  # the keeper is gone
            self._control.shutdown(socket.SHUT_WR)
        deadline = time.perf_counter() + max_seconds
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(max_seconds)
        while (line := self.read_line(deadline - time.perf_counter())) is not None:
            if not line:  # the keeper is gone
                self._control.close()
                self._exit_code_of_keeper()
                return True
        return False

    def fileno(self) -> int:
        """Return the descriptor of the line, which `select` can wait for."""
        return self._control.fileno()

    def close(self) -> None:
        """Close the line: the keeper ends everything, unwatched."""
        self._control.close()

    def read_line(self, max_seconds: float) -> bytes | None:
        """Return the keeper's next line, empty if none will come; None if none has come in time."""
        deadline = time.perf_counter() + max_seconds
        while b"\n" not in self._received:
            if self._control.fileno() < 0:
                return b""
            if not await_news([self], deadline - time.perf_counter()):
                return None
            try:
                data = self._control.recv(4096)
            except ConnectionError:
                data = b""
            if not data:
                return b""
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _exit_code_of_keeper(self) -> int:
        if self._keeper is None:
            return -signal.SIGKILL
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._keeper.wait(_END_SECONDS) or -signal.SIGKILL
        return -signal.SIGKILL


def open_log(path: Path) -> BinaryIO:
    """Return a new file for what a process prints; what it appends to, its keeper can shorten."""
    path.unlink(missing_ok=True)  # whoever still prints to one of that name must not print into this one
    return path.open("a+b")


def start_ours(
    module: str,
    channel: socket.socket,
    log_path: Path | None,
    environment: Mapping[str, str],
    adopts: bool = True,
    before: Sequence[str] = (),
) -> KeptProcess:
    """Start the `main` of a module of ours, with the descriptor of a channel as its argument; see `start_program`."""
    python = [*before, sys.executable, "-u", "-c", _OURS.format(module=module)]
    return _start(python, [str(channel.fileno())], log_path, environment, adopts, channels=[channel.fileno()])


def start_program(
    arguments: Sequence[str],
    log_path: Path | None,
    environment: Mapping[str, str],
    cwd: str,
    stdin: str,
    before: Sequence[str] = (),
) -> KeptProcess:
    """Start a program.

    Args:
        arguments: The program first.
        log_path: Where its stdout and stderr go; None for this process's own.
        environment: All of its variables.
        cwd: Its working folder.
        stdin: The file that its standard input is; empty: none.
        before: What it is started with, and its keeper: a program that becomes the one that follows.
    """
    # Without what `site` imports: a launcher's variables make that hear the processes which it starts, not its keeper.
    python = [
        *before,
        sys.executable,
        "-S",
        "-c",
        _PROGRAM.format(path=[str(Path(part).absolute()) for part in sys.path if part]),
    ]
    return _start(python, arguments, log_path, environment, adopts=True, cwd=cwd, stdin=stdin)


def _start(
    python: Sequence[str],
    arguments: Sequence[str],
    log_path: Path | None,
    environment: Mapping[str, str],
    adopts: bool,
    channels: Sequence[int] = (),
    cwd: str | None = None,
    stdin: str = "",
) -> KeptProcess:
    ours, theirs = socket.socketpair()
    with theirs, contextlib.ExitStack() as files:
        on_error = files.enter_context(contextlib.ExitStack())
        on_error.callback(ours.close)
        log = files.enter_context(open_log(log_path)) if log_path else None
        told = [str(theirs.fileno()), str(os.getpid()), str(adopts), str(log is not None)]
        keeper = subprocess.Popen(
            [*python, *told, *arguments],
            stdin=files.enter_context(Path(stdin or os.devnull).open("rb")),
            stdout=log,
            stderr=subprocess.STDOUT if log else None,
            env=dict(environment),
            cwd=cwd,
            pass_fds=[theirs.fileno(), *channels],
            **_OWN_GROUP,
        )
        on_error.pop_all()
    return KeptProcess(ours, keeper)
