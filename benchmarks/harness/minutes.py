"""`--minutes N`: a benchmark that ends in time. Finished work is kept, and the same command resumes.

parser.add_argument("--minutes", **MINUTES)
with ending_in_time(parsed.minutes) as seconds_left:
    ...
"""

from __future__ import annotations

import argparse
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

LEAVING_SECONDS = 15.0  # of the minutes: to end processes in


class TimeIsUp(BaseException):
    """The minutes are over. Raised wherever the benchmark is, as Ctrl-C is, and no error either."""


def above_zero(text: str) -> float:
    """Return the number that an argument is.

    Raises:
        argparse.ArgumentTypeError: If it is none, or not above zero.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"must be a number above zero, got {text!r}")
    return number


def at_least(least: int) -> Callable[[str], int]:
    """Return what reads an argument that must be a whole number, this or a larger one."""

    def read(text: str) -> int:
        number = int(text) if text.strip().isdecimal() else least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"must be a whole number, at least {least}, got {text!r}")
        return number

    return read


MINUTES: dict[str, Any] = {
    "type": above_zero,
    "metavar": "N",
    "help": "end before N minutes have passed; the same command resumes",
}
"""Arguments of `add_argument` for the option."""


@contextmanager
def ending_in_time(minutes: float | None) -> Iterator[Callable[[], float]]:
    """Run the block until it ends or the time is nearly over; say so then, without an error.

    Yields:
        How many seconds are left; infinitely many if there is no limit.
    """
    if minutes is None:
        yield lambda: math.inf
        return
    seconds = max(60 * minutes - LEAVING_SECONDS, 1e-3)
    end = time.monotonic() + seconds
    before = signal.signal(signal.SIGALRM, _leave)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield lambda: max(0.0, end - time.monotonic())
    except TimeIsUp:
        print(f"{minutes:g} minutes are over; finished work is kept, and the same command resumes", flush=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    raise TimeIsUp
