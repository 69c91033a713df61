"""ForkServers: a fork server for each environment that processes must have from their start."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from autoaccel.workers.environment import worker_environment
from autoaccel.workers.forkserver import ForkServer

MAX_SERVERS = 4
"""Servers that are kept: each holds torch in its memory."""


class ForkServers:
    """Starts fork servers when they are first needed, and ends the least recently used when there are too many."""

    def __init__(self, logs: Path, variables: Mapping[str, str]) -> None:
        """Begin with none.

        Args:
            logs: Folder for the servers' logs.
            variables: What servers have besides the variables that are asked for.
        """
        self.modules = ["torch", "autoaccel.runtime.tasks"]
        """What every worker needs, and forked ones find imported."""
        self._logs = logs
        self._variables = dict(variables)
        self._servers: dict[str, ForkServer] = {}  # by what differs at start; least recently used first
        self._numbers = itertools.count(1)
        self._usable = sys.platform == "linux"  # elsewhere system libraries do not survive a fork

    def server_for(
        self, key: str, at_start: Mapping[str, str], in_use: Collection[ForkServer | None]
    ) -> ForkServer | None:
        """Return the server for processes with these variables; None where processes cannot be forked.

        Args:
            key: Equal for equal variables.
            at_start: The variables that processes must have from their start.
            in_use: Servers whose workers still run; they are not ended.
        """
        if not self._usable:
            return None
        if key not in self._servers:
            self._make_room(in_use)
            log = self._logs / f"forkserver-{next(self._numbers)}.log"
            self._servers[key] = ForkServer(worker_environment(os.environ, {**at_start, **self._variables}), log)
        server = self._servers[key] = self._servers.pop(key)  # the most recently used comes last
        return server

    def give_up(self) -> None:
        """Fork no more: a server could not. What its imports did to it is in its log; new programs still work."""
        self._usable = False

    def running(self) -> Iterable[ForkServer]:
        """Return the servers that are kept."""
        return self._servers.values()

    def close(self) -> None:
        """End them all."""
        for server in self._servers.values():
            server.close()

    def _make_room(self, in_use: Collection[ForkServer | None]) -> None:
        if len(self._servers) < MAX_SERVERS:
            return
        for key, server in self._servers.items():
            if server not in in_use:
                server.close()
                del self._servers[key]
                return
