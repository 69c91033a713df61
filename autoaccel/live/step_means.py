"""The seconds of all steps of a training, in so few numbers that a report can show them."""

from __future__ import annotations

from autoaccel.report.step_times import StepMean

MOST = 240  # means that are kept; twice as many are made into half of them


class StepMeans:
    """Keeps means of steps in a row, of the more steps the longer the training is."""

    def __init__(self) -> None:
        """Begin before any step."""
        self._means: list[StepMean] = []
        self._each = 1  # steps of a mean
        self._steps = 0
        self._open: list[float] = []  # of the mean that is being made

    def add(self, seconds: float | None) -> None:
        """Take in a step; None if something else was done beside it."""
        self._steps += 1
        if seconds is None:
            return
        self._open.append(seconds)
        if len(self._open) < self._each:
            return
        self._means.append(StepMean(self._steps - self._each, self._each, sum(self._open) / self._each))
        self._open.clear()
        if len(self._means) == 2 * MOST:
            self._each *= 2
            pairs = zip(self._means[::2], self._means[1::2], strict=True)
            self._means = [
                StepMean(one.first, other.first + other.steps - one.first, (one.seconds + other.seconds) / 2)
                for one, other in pairs
            ]

    @property
    def means(self) -> tuple[StepMean, ...]:
        """All that were made."""
        return tuple(self._means)
