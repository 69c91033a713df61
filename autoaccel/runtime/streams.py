"""How a worker's process ends: what the user's code has printed goes out first."""

from __future__ import annotations

import contextlib
import os
import sys

end_process = os._exit
"""What ends a process whatever a script has made of os._exit()."""


def flush_streams() -> None:
    """Let out what the user's code has printed, where it has not closed its streams, or put None in their place."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
