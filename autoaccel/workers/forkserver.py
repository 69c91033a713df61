"""ForkServer: starts workers that need not wait for `import torch`, seen from the tuner."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec

from autoaccel.records.base import decode, encode
from autoaccel.workers.forking import LENGTH_BYTES, Forked, ForkRequest
from autoaccel.workers.kept import KeptProcess, open_log, start_ours

IMPORT_SECONDS = 120.0
"""After so long, a server that has not imported what a worker needs is given up."""

_END_SECONDS = 5.0  # for a killed server to be gone


class ForkFailedError(Exception):
    """The fork server cannot fork, or no longer."""


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
        with server_end:
            self._process = start_ours("workers.forking", server_end, log_path, environment)

    def fork(
        self, environment: Mapping[str, str], modules: tuple[str, ...], channel: socket.socket, log_path: Path | None
    ) -> KeptProcess:
        """Return a process that has just begun to serve the channel, these modules imported.

        Raises:
            ForkFailedError: If the server cannot fork, or no longer.
        """
        request = encode(ForkRequest(dict(environment), modules))
        ours, theirs = socket.socketpair()
        process = KeptProcess(ours)
        try:
            with theirs, contextlib.ExitStack() as stack:
                descriptors = [channel.fileno(), theirs.fileno()]
                if log_path:
                    descriptors.append(stack.enter_context(open_log(log_path)).fileno())
                length = len(request).to_bytes(LENGTH_BYTES, "big")
                socket.send_fds(self._connection, [length], descriptors)
                self._connection.sendall(request)
            process.import_seconds = decode(process.read_line(IMPORT_SECONDS) or b"", Forked).import_seconds
        except OSError as error:
            process.close()
            raise ForkFailedError(f"the fork server is gone: {error}") from error
        except msgspec.MsgspecError as error:
            process.close()
            raise ForkFailedError("the fork server did not answer") from error
        except KeyboardInterrupt:
            # It may have received half of the request: then it waits for the rest.
            process.close()
            self.close()
            raise
        return process

    def close(self) -> None:
        """End it, and with it the workers that it forked."""
        self._process.end(_END_SECONDS)
        self._connection.close()
