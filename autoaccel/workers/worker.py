"""Worker: one process that serves one spec, seen from the tuner. It may crash, hang or be killed at any time."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from autoaccel.machine.interruptions import moment
from autoaccel.records.base import decode, encode
from autoaccel.records.launching import Launched
from autoaccel.records.messages import Answer, Failure, WorkerSpec
from autoaccel.runtime.script.private_copies import in_scratch
from autoaccel.workers.environment import TEMPORARY_VARIABLE
from autoaccel.workers.forkserver import ForkServer
from autoaccel.workers.kept import start_ours, start_program
from autoaccel.workers.launchers import Listener, command, variables

_MAX_LOG_BYTES = 256 * 1024  # kept of what a process prints: the end, where the reasons are
_TAIL_LINES = 20
_TAIL_OF_LAUNCHER = 60  # of which torchrun's own summary takes the last forty
_LAST_WORDS_SECONDS = 0.5  # for a hung process to say where it is
_END_SECONDS = 5.0  # for a killed process to be gone


class Worker:
    """A process, its channel and its log. Leaving the `with` block kills the whole process group."""

    def __init__(
        self,
        spec: WorkerSpec,
        log_path: Path | None,
        environment: Mapping[str, str],
        server: ForkServer | None = None,
        modules: tuple[str, ...] = (),
        adopts: bool = True,
        start: Sequence[str] = (),
    ) -> None:
        """Start the process; it shares nothing with this one but the channel.

        Args:
            spec: What to do.
            log_path: Where its stdout and stderr go; None for this process's own.
            environment: All of its variables.
            server: The server that forks it; None to start a new program.
            modules: What the server imports before it forks.
            adopts: Whether what the process leaves behind, such as a daemon, ends with it.
            start: What a new program is started with, before its own name: it becomes that program.

        Raises:
            ForkFailedError: If the server cannot fork.
        """
        self.started_at = time.perf_counter()
        self.import_seconds: Mapping[str, float] = {}  # that each import took which it was spared
        self.server = server
        self.log_path = log_path
        self._scratch = spec.scratch
        self._paused = False
        self._closed = False
        self._gone = False
        self._received = b""
        self._socket: socket.socket | None = None
        self._listener: Listener | None = None  # to which what it launches will connect
        if (launcher := spec.launcher) is not None:
            self._listener = Listener(environment.get(TEMPORARY_VARIABLE))
            told = variables(Launched(spec, self._listener.path), environment)
            folder = in_scratch(spec.scratch, launcher.folder) if spec.scratch else launcher.folder
            launched = command(launcher)
            self._process = start_program(launched, log_path, told, cwd=folder, stdin=launcher.stdin, before=start)
        else:
            self._socket, child_end = socket.socketpair()  # which it has from its start
            with child_end:
                try:
                    if server is None:
                        self._process = start_ours(
                            spec.served_by, child_end, log_path, environment, adopts, before=start
                        )
                    else:
                        self._process = server.fork(environment, modules, child_end, log_path)
                        self.started_at = time.perf_counter()
                except BaseException:
                    self._socket.close()
                    raise
            self.import_seconds = self._process.import_seconds
            self._send(encode(spec))

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
        """Return the next answer, or the Failure that came instead: a crash, or silence for so long (inf: for ever).

        If this process was stopped meanwhile, the worker most often was, too: it has the time once more.
        """
        deadline, began = time.perf_counter() + timeout_seconds, moment()
        channel = self._connected(deadline)
        while b"\n" not in self._received:
            if channel is None and self._has_ended():
                self._gone = True
                return self._died()
            remaining = deadline - time.perf_counter()
            if channel is None or (remaining <= 0 and (timeout_seconds <= 0 or not began.interrupted_until(moment()))):
                return self._hung(timeout_seconds)
            if remaining <= 0:
                remaining, began = timeout_seconds, moment()
                deadline = time.perf_counter() + remaining
            channel.settimeout(None if math.isinf(remaining) else remaining)
            try:
                data = channel.recv(1 << 16)
            except TimeoutError:
                continue
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
            self._process.signal(signal.SIGSTOP)
            self._paused = True

    def resume(self) -> None:
        """Let the process group continue."""
        if self._paused:
            self._process.signal(signal.SIGCONT)
            self._paused = False

    def close(self) -> None:
        """Kill the process and all that came of it; keep the end of the log."""
        if self._closed:
            return
        self._closed = True
        if not self._process.end(_END_SECONDS) and self.log_path is not None:
            with self.log_path.open("a") as log:
                print(
                    f"autoaccel: process {self._process.pid} did not end within {_END_SECONDS} s of being killed",
                    file=log,
                )
        for channel in (self._socket, self._listener):
            if channel is not None:
                channel.close()
        self._trim_log()

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
        self._process.signal(signal.SIGUSR1)  # its faulthandler writes where it is
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
        if self.log_path is None:
            return ""
        with self.log_path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - 16 * 1024))
            text = log.read().decode(errors="replace")
        text = text.replace(self._scratch, "") if self._scratch else text  # the user's files, not their copies
        return "\n".join(text.splitlines()[-(_TAIL_LINES if self._listener is None else _TAIL_OF_LAUNCHER) :])

    def _trim_log(self) -> None:
        if self.log_path is None or not self.log_path.exists():
            return
        size = self.log_path.stat().st_size
        if size > _MAX_LOG_BYTES:
            with self.log_path.open("rb") as log:
                log.seek(size - _MAX_LOG_BYTES)
                end = log.read()
            self.log_path.write_bytes(f"[{size - _MAX_LOG_BYTES:,} bytes omitted]\n".encode() + end)
