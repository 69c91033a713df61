"""Wait until at least one of several channels has something to read."""

from __future__ import annotations

import math
import selectors
from collections.abc import Sequence
from typing import Protocol, TypeVar


class Pollable(Protocol):
    """A socket, a pipe, or an object that has one."""

    def fileno(self) -> int: ...


PollableType = TypeVar("PollableType", bound=Pollable)


def await_news(channels: Sequence[PollableType], seconds: float) -> list[PollableType]:
    """Return the channels that have something to read or were closed, in their order; empty when time is up.

    `select` would not do: it cannot watch descriptors above 1023, which a program with many open files has.

    Args:
        channels: What to wait for.
        seconds: How long to wait at most; 0 or less: not at all; inf: for ever.
    """
    with selectors.DefaultSelector() as selector:
        for channel in channels:
            selector.register(channel, selectors.EVENT_READ)
        ready = {key.fd for key, _ in selector.select(None if math.isinf(seconds) else max(0.0, seconds))}
    return [channel for channel in channels if channel.fileno() in ready]
