"""The metric of a script: the numbers that it prints, writes or reports, each with the step after which it did."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from autoaccel.records.messages import Failure
from autoaccel.records.script_metric import FileMetric, MetricSource, PrintedMetric, ReportedMetric
from autoaccel.reported import hear_reports
from autoaccel.runtime.paced import Said
from autoaccel.runtime.script.listening import WatchedFile, listen_to_output

_LAST_SHARE = 0.9  # of the steps: what is said after fewer does not count, as in runtime/last_part.py


class OwnMetric:
    """Hears what a script says of its metric."""

    def __init__(self, source: MetricSource) -> None:
        """Begin to hear.

        Args:
            source: Where it says it.
        """
        self._source = source
        self._steps = 0
        self._said: dict[int, float] = {}  # by the steps that were made by then; of several at one step the last
        self._look: Callable[[], None] = lambda: None
        match source:
            case PrintedMetric(pattern=pattern):
                listen_to_output(re.compile(pattern), self.add)
            case FileMetric():
                self._look = WatchedFile(Path(source.path).absolute(), source.key, self.add).look
            case ReportedMetric(name=name):
                hear_reports(partial(self._reported, name))

    def add(self, value: float) -> None:
        """Take in a number."""
        self._said[self._steps] = value

    def _reported(self, wanted: str, name: str, value: float) -> None:
        if name == wanted:
            self.add(value)

    def step_ends(self) -> None:
        """A step is about to be counted: what was said until now was said before it."""
        self._look()
        self._steps += 1

    def since(self, steps: int, patience: int, has_ended: bool) -> Said | Failure | None:
        """Return what it says of a training of so many steps; None if it has yet to say that.

        The first number after so many steps counts, once another step was made: of an evaluation that prints as it
        goes, the last. With it those count that were said in the last tenth of the steps, in the mean. Of a script that
        says nothing at its end the last number counts.

        Args:
            steps: After which it is asked for.
            patience: How many more steps it is given to say something.
            has_ended: Whether the script has come to its end.
        """
        if has_ended:
            self._look()
        after = min((at for at in self._said if at >= steps), default=None)
        if after is not None and (self._steps > after or has_ended):
            counted = [value for at, value in sorted(self._said.items()) if _LAST_SHARE * steps <= at <= after]
            return Said(math.fsum(counted) / len(counted), counted[-1], len(counted))
        if has_ended and self._said:
            last = self._said[max(self._said)]
            return Said(last, last, 1)
        if has_ended or self._steps > steps + patience:
            message = f"its metric was not found within {self._steps:,} steps: {self._source.words}"
            return Failure(kind="invalid", message=message, signature="no metric")
        return None
