"""Notice that the computer slept, or that this process was stopped: no time that spans such a moment is to be believed.

A budget is not charged for sleep: on Linux and macOS `time.perf_counter` stands still meanwhile.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from types import FrameType
from typing import NamedTuple

_MIN_ASLEEP_SECONDS = 0.1  # two clocks that are read one after the other differ by less


class Moment(NamedTuple):
    """What tells whether there was an interruption between two moments."""

    asleep_seconds: float  # that the computer has slept since it was started
    continued: int  # times that this process was continued after a stop

    def interrupted_until(self, later: Moment) -> bool:
        """Whether the computer slept, or this process was stopped, between this moment and a later one."""
        slept = later.asleep_seconds - self.asleep_seconds
        return slept > _MIN_ASLEEP_SECONDS or later.continued != self.continued


_continued = 0


def watch_stops() -> None:
    """Count from now on how often this process is continued after a stop, by a terminal (Ctrl-Z) or a signal.

    In other threads than the main one, and in processes that do not call this, only sleep is noticed.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCONT, _count)


def _count(number: int, frame: FrameType | None) -> None:
    global _continued
    _continued += 1


def moment() -> Moment:
    """Return what tells later whether there was an interruption since now."""
    return Moment(_asleep_seconds(), _continued)


def _asleep_seconds() -> float:
    """Return the difference of the clock that goes on while the computer sleeps, and of the one that does not."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC) - time.clock_gettime(time.CLOCK_UPTIME_RAW)
    return 0.0
