"""What a step takes by the size of its batch: batches of padded texts differ by more than settings do."""

from __future__ import annotations

import math

_MIN_STEPS = 12  # before anything is said
_MIN_CORRELATION = 0.3  # below it, sizes tell nothing of what a step takes
_LEAST = 0.2  # of a usual step, that the smallest batch is taken to cost


class BatchSizes:
    """Learns from steps under the same settings, as a line: so much for any step, and so much for each number in it."""

    def __init__(self) -> None:
        """Begin before any step."""
        self._count = 0
        self._size = self._seconds = 0.0  # means
        self._squares = self._products = self._of_seconds = 0.0  # sums around these

    def learn(self, size: int, seconds: float) -> None:
        """Take in a step under the settings in use.

        Args:
            size: Numbers in what its models were called with.
            seconds: That it took.
        """
        self._count += 1
        size_before, seconds_before = size - self._size, seconds - self._seconds
        self._size += size_before / self._count
        self._seconds += seconds_before / self._count
        self._squares += size_before * (size - self._size)
        self._products += size_before * (seconds - self._seconds)
        self._of_seconds += seconds_before * (seconds - self._seconds)

    def usual(self, size: int, seconds: float) -> float:
        """Return what a step would have taken whose batch is of the usual size.

        Args:
            size: Of its batch.
            seconds: That it took.
        """
        if self._count < _MIN_STEPS or not self._squares or not self._of_seconds or not self._size:
            return seconds
        if self._products / math.sqrt(self._squares * self._of_seconds) < _MIN_CORRELATION:
            return seconds
        # No number costs more than if all of a step were for its numbers.
        slope = min(self._products / self._squares, self._seconds / self._size)
        expected = max(_LEAST * self._seconds, self._seconds + slope * (size - self._size))
        return seconds * self._seconds / expected
