"""How much the steps of a training differ from one moment to the next, under the same settings."""

from __future__ import annotations

import math
import statistics

from autoaccel.live.blocks import BLOCK_SECONDS, BLOCK_STEPS

_MIN_DIFFERENCES = 5  # of which a standard deviation is told


class UsualBlocks:
    """Means of the steps under the settings in use, in blocks, one after the other."""

    def __init__(self) -> None:
        """Begin before any step."""
        self._logs: list[float] = []  # of the means
        self._open: list[float] = []  # seconds of the block that is being made

    def add(self, seconds: float) -> None:
        """Take in a step."""
        self._open.append(seconds)
        if len(self._open) >= BLOCK_STEPS and sum(self._open) >= BLOCK_SECONDS:
            self._logs.append(math.log(statistics.fmean(self._open)))
            self._open.clear()

    def forget(self) -> None:
        """Other settings are in use from now on."""
        self._logs.clear()
        self._open.clear()

    def drift(self, blocks: int) -> float | None:
        """Return by how much the mean of so many blocks differs from that of as many right after them.

        A standard deviation of logarithms: what two settings that are equal would seem to differ by if one were
        measured after the other. None where too few were seen to say.
        """
        starts = range(0, len(self._logs) - 2 * blocks + 1, max(1, blocks // 2))
        if len(starts) < _MIN_DIFFERENCES:
            return None
        means = [
            (
                statistics.fmean(self._logs[at : at + blocks]),
                statistics.fmean(self._logs[at + blocks : at + 2 * blocks]),
            )
            for at in starts
        ]
        return math.sqrt(statistics.fmean((one - other) ** 2 for one, other in means))


_MIN_DIFFERENCES = 5
