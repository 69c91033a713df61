"""Where a script says how good its model is, if that is not told by its training loss."""

from __future__ import annotations

import re
from pathlib import PurePath

from autoaccel.errors import BadRequestError
from autoaccel.records.base import Record


class PrintedMetric(Record, frozen=True, tag="printed"):
    """The number in a line that it prints."""

    pattern: str  # a regular expression with one group, the number

    @property
    def name(self) -> str:
        """What the pattern says before the number, such as `val_acc`; the pattern itself if that is nothing."""
        words = re.match(r"[\w /.-]*\w", self.pattern)
        return words[0] if words else self.pattern

    @property
    def words(self) -> str:
        """Where it is found."""
        return f"a line of its output that matches {self.pattern}"


class FileMetric(Record, frozen=True, tag="file"):
    """A number in a JSON file that it writes."""

    path: str
    key: str  # of nested objects "eval.accuracy"

    @classmethod
    def typed(cls, text: str) -> FileMetric:
        """Return what a person means by FILE:KEY.

        Raises:
            BadRequestError: If that is something else.
        """
        path, colon, key = text.rpartition(":")
        if not (colon and path and key):
            raise BadRequestError(f"--metric-file {text}: must be FILE:KEY, such as metrics.json:accuracy.")
        return cls(path, key)

    @property
    def name(self) -> str:
        """What the number is called there."""
        return self.key

    @property
    def words(self) -> str:
        """Where it is found."""
        return f"{self.key} in {PurePath(self.path).name}"


class ReportedMetric(Record, frozen=True, tag="reported"):
    """What it calls autoaccel.report() with."""

    name: str

    @property
    def words(self) -> str:
        """Where it is found."""
        return f'autoaccel.report("{self.name}", ...)'


MetricSource = PrintedMetric | FileMetric | ReportedMetric
