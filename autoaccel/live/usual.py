"""The steps under the settings in use, in blocks: what others are compared with that cannot be taken back."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import deque
from collections.abc import Sequence

from autoaccel.live.blocks import BLOCK_SECONDS, Block

BLOCKS_BEFORE, MAX_BLOCKS_BEFORE = 6, 24
"""Of steps before settings that cannot be taken back: as many as are compared, and as many as are waited for at most
until these are steady. The first steps of a training often take longer than those that follow."""
STEADY = 0.03
"""By which the means of the earlier and the later half of them may differ, as logarithms. A guess."""

UNKNOWN_DRIFT = 0.07
"""Standard deviation of the logarithm of what a machine takes from one moment to the next, where a run has hardly
begun: as from hour to hour on virtual machines (`SHARED_DRIFT`)."""
_MIN_DIFFERENCES = 5  # of which a standard deviation is told


class UsualBlocks:
    """Steps under the settings in use, in blocks, one after the other; a long step is one of its own."""

    def __init__(self) -> None:
        """Begin before any step."""
        self._last: deque[Block] = deque(maxlen=MAX_BLOCKS_BEFORE)
        self._logs: list[float] = []  # of the means of all
        self._open: list[float] = []  # seconds of the steps of the block that is being made
        self._system = 0.0  # the same of the operating system

    def add(self, seconds: float, system: float = 0.0) -> None:
        """Take in a step.

        Args:
            seconds: That it took.
            system: CPU seconds that the operating system spent on it.
        """
        self._open.append(seconds)
        self._system += system
        if sum(self._open) >= BLOCK_SECONDS:
            block = Block(self._open, len(self._open), system=self._system)
            self._last.append(block)
            self._logs.append(math.log(block.mean))
            self._open, self._system = [], 0.0

    def forget(self) -> None:
        """Other settings are in use from now on."""
        self._last.clear()
        self._logs.clear()
        self._open, self._system = [], 0.0

    def steady(self) -> Sequence[Block] | None:
        """Return the last blocks, if their steps become neither faster nor slower, or if that is waited for in vain.

        None as long as more are to be waited for.
        """
        blocks = list(self._last)[-BLOCKS_BEFORE:]
        if len(blocks) < BLOCKS_BEFORE:
            return None
        half = BLOCKS_BEFORE // 2
        changes = abs(statistics.fmean(self._logs[-half:]) - statistics.fmean(self._logs[-BLOCKS_BEFORE:-half]))
        return blocks if changes <= STEADY or len(self._last) == MAX_BLOCKS_BEFORE else None

    def knows_drift(self, blocks: int) -> bool:
        """Whether enough blocks were seen to say; see `drift`."""
        return len(self._starts(blocks)) >= _MIN_DIFFERENCES

    def drift(self, blocks: int) -> float:
        """Return by how much the mean of so many blocks differs from that of as many right after them, but for noise.

        A standard deviation of logarithms: what two settings that are equal would seem to differ by if one were
        measured after the other, for however many steps. Noise is what blocks differ by from one to the next (J. von
        Neumann, The Annals of Mathematical Statistics 12, 1941: the mean square successive difference). Where too few
        were seen to say, what is usual on machines.
        """
        if not self.knows_drift(blocks):
            return UNKNOWN_DRIFT
        squares = [
            (
                statistics.fmean(self._logs[at : at + blocks])
                - statistics.fmean(self._logs[at + blocks : at + 2 * blocks])
            )
            ** 2
            for at in self._starts(blocks)
        ]
        noise = statistics.fmean((other - one) ** 2 for one, other in itertools.pairwise(self._logs)) / blocks
        return math.sqrt(max(0.0, statistics.fmean(squares) - noise))

    def _starts(self, blocks: int) -> range:
        """Return where so many blocks begin of which as many follow."""
        return range(0, len(self._logs) - 2 * blocks + 1, max(1, blocks // 2))
