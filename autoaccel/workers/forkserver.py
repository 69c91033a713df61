"""ForkServer: starts workers that need not wait for `import torch`, seen from the tuner."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

from autoaccel.records.base import decode, encode
from autoaccel.workers.forking import LENGTH_BYTES, START, Forked, ForkRequest
from autoaccel.workers.listening import await_news

IMPORT_SECONDS = 120.0
"""After so long, a server that has not imported what a worker needs is given up."""

_END_SECONDS = 5.0  # for a killed server to be gone


class ForkFailedError(Exception):
    """The fork server cannot fork, or no longer."""


class ForkedProcess:
    """A process that the fork server made: it is the server's child, so the exit code comes from there."""

    def __init__(self, status: BinaryIO) -> None:
        """Wait until it has started.

        Raises:
            ForkFailedError: If it did not.
        """
        self._status = status
        self._exit_code: int | None = None
        try:
            forked = decode(status.readline() if await_news([status], IMPORT_SECONDS) else b"", Forked)
        except msgspec.MsgspecError as error:
            status.close()
            raise ForkFailedError("the fork server did not answer") from error
        self.pid = forked.pid
        self.import_seconds = forked.import_seconds

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, negative if a signal ended the process.

        Raises:
            subprocess.TimeoutExpired: If it runs for longer.
        """
        if self._exit_code is None:
            if not await_news([self._status], math.inf if timeout is None else timeout):
                raise subprocess.TimeoutExpired("a forked worker", timeout or 0.0)
            # Nothing comes if the server itself was killed; its children are killed with it.
            self._exit_code = int(self._status.readline() or -9)
            self._status.close()
        return self._exit_code


class ForkServer:
    """A process in some environment that has imported modules and forks workers.

    Only where forking is known to be safe: on Linux.
    """

    def __init__(self, environment: Mapping[str, str], log_path: Path) -> None:
        """Start it. It shares nothing with this process but a channel.

        Args:
            environment: Variables that the libraries find which it imports; those of workers may be more.
            log_path: Where its stdout and stderr go.
        """
        self._connection, server_end = socket.socketpair()
        with server_end, log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-u",
                    "-c",
                    START.format(module="workers.forking"),
                    str(server_end.fileno()),
                    str(os.getpid()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                pass_fds=[server_end.fileno()],
                start_new_session=True,  # only the tuner handles a Ctrl-C at the terminal
            )

    def fork(
        self, environment: Mapping[str, str], modules: tuple[str, ...], channel: socket.socket, log_path: Path | None
    ) -> ForkedProcess:
        """Return a process that has just begun to serve the channel, these modules imported.

        Raises:
            ForkFailedError: If the server cannot fork, or no longer.
        """
        request = encode(ForkRequest(dict(environment), modules))
        read_end, write_end = os.pipe()
        status = os.fdopen(read_end, "rb", buffering=0)
        try:
            with contextlib.ExitStack() as stack:
                stack.callback(os.close, write_end)
                descriptors = [channel.fileno(), write_end]
                if log_path:
                    descriptors.append(stack.enter_context(log_path.open("wb")).fileno())
                length = len(request).to_bytes(LENGTH_BYTES, "big")
                socket.send_fds(self._connection, [length], descriptors)
                self._connection.sendall(request)
            return ForkedProcess(status)
        except OSError as error:
            status.close()
            raise ForkFailedError(f"the fork server is gone: {error}") from error
        except KeyboardInterrupt:
            # It may have received half of the request: then it waits for the rest, and reports no other worker's end.
            status.close()
            self.close()
            raise

    def close(self) -> None:
        """End it; the kernel ends with it the workers that it forked."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it was killed: no more can be done
            self._process.wait(_END_SECONDS)
        self._connection.close()
