"""Start a script's own launcher so that the processes which it starts are heard.

The launcher runs as it always does. A `sitecustomize` that comes first on the path of whatever it starts lets autoaccel
hear it: rank 0 answers the tuner over a socket, and all ranks train under the settings (`runtime/script/launched.py`).
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from autoaccel.records.base import encode
from autoaccel.records.launching import LAUNCHED, LAUNCHER, OWN_PATH, PATH, Launched
from autoaccel.records.workload import Script

_SITE = str(Path(__file__).parents[1] / "runtime" / "script" / "site")
_LOOK_SECONDS = 0.1  # between looks whether the launcher has ended


def variables(launched: Launched, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables under which a launcher lets autoaccel hear what it starts.

    Args:
        launched: What its processes are told.
        environment: All variables that it would have.
    """
    own = environment.get(PATH, "")
    path = os.pathsep.join(part for part in (_SITE, own) if part)
    return {**environment, LAUNCHED: encode(launched).decode(), PATH: path, OWN_PATH: own}


def command(script: Script) -> list[str]:
    """Return what starts a launcher as a person would, with its process number in a variable."""
    program = ["-m", script.module] if script.module else [script.path]
    start = f"import os, sys; os.environ[{LAUNCHER!r}] = str(os.getpid()); os.execv(sys.executable, sys.argv[1:])"
    return [sys.executable, "-S", "-c", start, sys.executable, *program, *script.arguments]


class Listener:
    """Where rank 0 of what a launcher starts will connect."""

    def __init__(self, place: str | None) -> None:
        """Begin to listen at a path of its own in a folder for temporary files; None for this process's own."""
        # Not in the run's folder: the path of such a socket may have a hundred characters at most.
        self._folder = tempfile.TemporaryDirectory(prefix="line-", dir=place)
        self.path = str(Path(self._folder.name, "rank-0"))
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen(1)
        self._socket.settimeout(_LOOK_SECONDS)

    def accept(self, has_ended: Callable[[], bool], deadline: float) -> socket.socket | None:
        """Return the connection; None if the launcher ends without one, or none is there in time.

        Args:
            has_ended: Whether the launcher has.
            deadline: By `time.perf_counter`.
        """
        while time.perf_counter() < deadline:
            with contextlib.suppress(TimeoutError):  # nobody has connected yet
                return self._socket.accept()[0]
            if has_ended():
                return None
        return None

    def fileno(self) -> int:
        """Return its descriptor, which `select` can wait for."""
        return self._socket.fileno()

    def close(self) -> None:
        """Remove it."""
        self._socket.close()
        self._folder.cleanup()
