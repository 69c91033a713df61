"""Wait for whichever of several channels says something first."""

from __future__ import annotations

import math
import selectors
from collections.abc import Sequence
from typing import Protocol, TypeVar


class Pollable(Protocol):
    """A socket, a pipe, or what has one."""

    def fileno(self) -> int: ...


PollableType = TypeVar("PollableType", bound=Pollable)


def await_news(channels: Sequence[PollableType], seconds: float) -> list[PollableType]:
    """Return those that have something to read or were closed, in their order; none if none had after so many seconds.

    Not by `select`: a program that holds many files open gets descriptors above 1023, which that cannot watch.

    Args:
        channels: Whom to listen to.
        seconds: How long at most; 0 or less: only look; inf: for ever.
    """
    with selectors.DefaultSelector() as selector:
        for channel in channels:
            selector.register(channel, selectors.EVENT_READ)
        ready = {key.fd for key, _ in selector.select(None if math.isinf(seconds) else max(0.0, seconds))}
    return [channel for channel in channels if channel.fileno() in ready]
