"""What the operating system spends on a thread: whoever computes waits for it."""

from __future__ import annotations

import sys


def thread_system_seconds() -> float:
    """Return the CPU seconds that the system has spent on this thread so far; 0 where it does not tell (not Linux).

    What it spends on threads beside it, such as those that load samples, a step need not wait for.
    """
    if sys.platform != "linux":
        return 0.0
    import resource

    return resource.getrusage(resource.RUSAGE_THREAD).ru_stime
