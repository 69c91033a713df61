"""Worker: one process that serves one spec, seen from the tuner. It may crash, hang or be killed at any time."""

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
from types import TracebackType
from typing import Protocol

import msgspec
import psutil

from autoaccel.records.base import decode, encode
from autoaccel.records.launching import Launched
from autoaccel.records.messages import Answer, Failure, WorkerSpec
from autoaccel.records.workload import Script
from autoaccel.workers.forking import START
from autoaccel.workers.forkserver import ForkFailedError, ForkServer
from autoaccel.workers.guard import Guard
from autoaccel.workers.launchers import Listener, command, launcher_of, variables

_OWN_GROUP = {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}
_MAX_LOG_BYTES = 256 * 1024  # kept of what a process prints: the end, where the reasons are
_TAIL_LINES = 20
_TAIL_OF_LAUNCHER = 60  # of which torchrun's own summary takes the last forty
_LAST_WORDS_SECONDS = 0.5  # for a hung process to say where it is
_END_SECONDS = 5.0  # for a killed process to be gone


class Process(Protocol):
    """A started process, our own child or the fork server's."""

    @property
    def pid(self) -> int: ...

    def wait(self, timeout: float | None = None) -> int: ...


class Worker:
    """A process, its channel and its log. Leaving the `with` block kills the whole process group."""

    def __init__(
        self,
        spec: WorkerSpec,
        log_path: Path | None,
        environment: Mapping[str, str],
        server: ForkServer | None = None,
        modules: tuple[str, ...] = (),
        guard: Guard | None = None,
    ) -> None:
        """Start the process; it shares nothing with this one but the channel.

        Args:
            spec: What to do.
            log_path: Where its stdout and stderr go; None for this process's own.
            environment: All of its variables.
            server: The server that forks it; None to start a new program.
            modules: What the server imports before it forks.
            guard: Kills its group if this process is killed first.

        Raises:
            ForkFailedError: If the server cannot fork.
        """
        self.started_at = time.perf_counter()
        self.import_seconds: Mapping[str, float] = {}  # that each import took which it was spared
        self.server = server
        self._log_path = log_path
        self._scratch = (spec.scratch, spec.workload.folder) if isinstance(spec.workload, Script) else (None, "")
        self._guard = guard
        self._paused = False
        self._closed = False
        self._gone = False
        self._received = b""
        self._socket: socket.socket | None = None
        self._listener: Listener | None = None  # to which what it launches will connect
        launcher = launcher_of(spec)
        if launcher is not None:
            self._listener = Listener()
            told = variables(Launched(spec, self._listener.path), environment)
            folder = spec.scratch or launcher.folder
            self._process: Process = _start(command(launcher), log_path, told, cwd=folder, stdin=launcher.stdin)
        else:
            self._start_ours(log_path, environment, server, modules)
            self._send(encode(spec))
        if guard is not None:
            guard.watch(self._process.pid)

    def _start_ours(
        self,
        log_path: Path | None,
        environment: Mapping[str, str],
        server: ForkServer | None,
        modules: tuple[str, ...],
    ) -> None:
        """Start a program of ours, or have it forked, with a channel that it has from its start."""
        self._socket, child_end = socket.socketpair()
        with child_end:
            if server is None:
                self._process = _start_program(child_end, log_path, environment)
            else:
                try:
                    self._process = forked = server.fork(environment, modules, child_end, log_path)
                except (ForkFailedError, KeyboardInterrupt):
                    self._socket.close()
                    raise
                self.started_at = time.perf_counter()
                self.import_seconds = forked.import_seconds

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def is_gone(self) -> bool:
        """Whether the process is known to have closed its channel: no answer will come any more."""
        return self._gone

    def fileno(self) -> int:
        """Return the descriptor of the channel, which `select` can wait for."""
        channel = self._socket or self._listener
        assert channel is not None  # it has one of them
        return channel.fileno()

    def tell(self, message: msgspec.Struct) -> None:
        """Send a message to a worker that waits for one."""
        self._send(encode(message))

    def receive(self, timeout_seconds: float) -> Answer:
        """Return the next answer, or the Failure that came instead: a crash, or silence for so long (inf: for ever)."""
        deadline = time.perf_counter() + timeout_seconds
        channel = self._connected(deadline)
        while b"\n" not in self._received:
            if channel is None and self._has_ended():
                self._gone = True
                return self._died()
            remaining = deadline - time.perf_counter()
            if remaining <= 0 or channel is None:
                return self._hung(timeout_seconds)
            channel.settimeout(None if math.isinf(remaining) else remaining)
            try:
                data = channel.recv(1 << 16)
            except TimeoutError:
                return self._hung(timeout_seconds)
            except ConnectionError:
                data = b""
            if not data:
                self._gone = True
                return self._died()
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        try:
            answer: Answer = decode(line, Answer)  # type: ignore[arg-type]  # to mypy a union is no class
        except msgspec.MsgspecError as error:
            message = f"the process sent an invalid reply: {error}"
            return self._with_log(Failure(kind="crashed", message=message, signature="invalid reply"))
        return self._with_log(answer) if isinstance(answer, Failure) else answer

    def _connected(self, deadline: float) -> socket.socket | None:
        """Return the channel; None if a launcher has started nothing that has connected in time."""
        if self._socket is None and self._listener is not None:
            self._socket = self._listener.accept(self._has_ended, deadline)
        return self._socket

    def _has_ended(self) -> bool:
        try:
            self._process.wait(0)
        except subprocess.TimeoutExpired:
            return False
        return True

    def pause(self) -> None:
        """Stop the whole process group where it is: neither it nor its loader workers use a core or get ahead."""
        if not self._paused:
            self._signal_group(signal.SIGSTOP)
            self._paused = True

    def resume(self) -> None:
        """Let the process group continue."""
        if self._paused:
            self._signal_group(signal.SIGCONT)
            self._paused = False

    def close(self) -> None:
        """Kill the process, its group and all other descendants; keep the end of the log."""
        if self._closed:
            return
        self._closed = True
        descendants = self._descendants()
        self._signal_group(signal.SIGKILL)
        has_ended = self._await_end()
        for process in descendants:
            if process.is_running():
                process.kill()
        _await_end(descendants, _END_SECONDS)
        if self._guard is not None and has_ended:
            self._guard.forget(self._process.pid)
        for channel in (self._socket, self._listener):
            if channel is not None:
                channel.close()
        self._trim_log()

    def _await_end(self) -> bool:
        """Return whether the killed process has ended; it cannot while it waits within a driver."""
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            if self._log_path is not None:
                with self._log_path.open("a") as log:
                    print(
                        f"autoaccel: process {self._process.pid} did not end within {_END_SECONDS} s of being killed",
                        file=log,
                    )
            return False
        return True

    def _descendants(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _signal_group(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            # Gone; macOS says "not permitted" of a group whose only process is a zombie.
            return

    def _send(self, data: bytes) -> None:
        if self._socket is None:
            return  # nothing has connected; receive() tells why
        try:
            self._socket.settimeout(None)
            self._socket.sendall(data + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            return  # it died; receive() tells how

    def _hung(self, timeout_seconds: float) -> Failure:
        self.resume()
        self._signal_group(signal.SIGUSR1)  # its faulthandler writes where it is
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may be stuck for good; its log says where
            self._process.wait(_LAST_WORDS_SECONDS)
        message = (
            f"no answer within {timeout_seconds:.0f} s" if timeout_seconds > 0 else "no time was left for an answer"
        )
        return self._with_log(Failure(kind="hung", message=message, signature=""))

    def _died(self) -> Failure:
        try:
            status = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            message = "it runs on unheard: it has closed all descriptors, or become another program (exec)"
            return self._with_log(Failure(kind="crashed", message=message, signature="closed channel"))
        if status >= 0:
            message = f"the process exited with status {status}"
            return self._with_log(Failure(kind="exited", message=message, signature="status"))
        name = signal.Signals(-status).name
        if name == "SIGKILL":
            message = "the process was killed (SIGKILL), usually because the system ran out of memory"
            return self._with_log(Failure(kind="memory", message=message, signature=name))
        return self._with_log(Failure(kind="crashed", message=f"the process crashed ({name})", signature=name))

    def _with_log(self, failure: Failure) -> Failure:
        return msgspec.structs.replace(failure, log_tail=self._log_tail())

    def _log_tail(self) -> str:
        if self._log_path is None:
            return ""
        with self._log_path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - 16 * 1024))
            text = log.read().decode(errors="replace")
        scratch, own = self._scratch
        text = text.replace(scratch, own) if scratch is not None else text  # the user's files, not their copies
        return "\n".join(text.splitlines()[-(_TAIL_LINES if self._listener is None else _TAIL_OF_LAUNCHER) :])

    def _trim_log(self) -> None:
        if self._log_path is None or not self._log_path.exists():
            return
        size = self._log_path.stat().st_size
        if size > _MAX_LOG_BYTES:
            with self._log_path.open("rb") as log:
                log.seek(size - _MAX_LOG_BYTES)
                end = log.read()
            self._log_path.write_bytes(f"[{size - _MAX_LOG_BYTES:,} bytes omitted]\n".encode() + end)


def _await_end(killed: Sequence[psutil.Process], max_seconds: float) -> None:
    """Wait until none of them runs any more. A zombie counts as ended: in a container, nobody may reap it."""
    deadline = time.perf_counter() + max_seconds
    for process in killed:
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended, and somebody has reaped it
            while process.status() != psutil.STATUS_ZOMBIE and time.perf_counter() < deadline:
                time.sleep(0.005)


def _start_program(channel: socket.socket, log_path: Path | None, environment: Mapping[str, str]) -> Process:
    start = START.format(module="runtime.worker")
    arguments = [sys.executable, "-u", "-c", start, str(channel.fileno()), str(os.getpid())]
    return _start(arguments, log_path, environment, channels=[channel.fileno()])


def _start(
    arguments: Sequence[str],
    log_path: Path | None,
    environment: Mapping[str, str],
    cwd: str | None = None,
    channels: Sequence[int] = (),
    stdin: str = "",
) -> Process:
    """Start a program in a process group of its own.

    Args:
        arguments: The program first.
        log_path: Where its stdout and stderr go; None for this process's own.
        environment: All of its variables.
        cwd: Its working folder; None for this process's own.
        channels: Descriptors that it gets.
        stdin: The file that its standard input is; empty: none.
    """
    with contextlib.ExitStack() as files:
        log = files.enter_context(log_path.open("wb")) if log_path else None
        return subprocess.Popen(
            arguments,
            stdin=files.enter_context(Path(stdin or os.devnull).open("rb")),
            stdout=log,
            stderr=subprocess.STDOUT if log else None,
            env=dict(environment),
            cwd=cwd,
            pass_fds=channels,
            **_OWN_GROUP,
        )
