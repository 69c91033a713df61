"""Ended: what workers that were closed have left, which does not pile up over thousands of trials."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autoaccel.workers.environment import TEMPORARY_VARIABLE
from autoaccel.workers.temporary import TemporaryFolder, remove_tree
from autoaccel.workers.worker import Worker

MAX_LOGS = 500
"""Of workers that were closed; records have the last lines of those that failed."""


class Ended:
    """Keeps the newest logs of workers that were closed, and none of their temporary files."""

    def __init__(self, temporary: TemporaryFolder | None) -> None:
        """Begin with nothing.

        Args:
            temporary: Where workers have their temporary files; None: where the user has them.
        """
        self._temporary = temporary
        self._folders: dict[Worker, Path] = {}  # TMPDIR of each
        self._logs: dict[Path, None] = {}  # the oldest first

    def variables(self, beside: Worker | None = None) -> dict[str, str]:
        """Return the variables by which the next process has a folder for temporary files; none: it has the user's own.

        Args:
            beside: A rank of the same training, whose folder it shares; None: it is alone, or the first.
        """
        if self._temporary is None:
            return {}
        return {TEMPORARY_VARIABLE: str(self._temporary.new() if beside is None else self._folders[beside])}

    def give(self, worker: Worker, variables: Mapping[str, str]) -> None:
        """These were for this worker; its folder is removed some time after it was closed."""
        if variables:
            self._folders[worker] = Path(variables[TEMPORARY_VARIABLE])

    def forget(self, started: list[Worker], to_come: Path | None) -> None:
        """Take closed workers out of a list; remove their temporary files, and the oldest logs if there are too many.

        Args:
            started: The workers.
            to_come: The log of the next worker, which may have the name of an earlier one.
        """
        for worker in [worker for worker in started if worker.is_closed]:
            started.remove(worker)
            if worker.log_path is not None:
                self._logs.pop(worker.log_path, None)
                self._logs[worker.log_path] = None
            if folder := self._folders.pop(worker, None):
                remove_tree(folder)
        if to_come is not None:
            self._logs.pop(to_come, None)
        while len(self._logs) > MAX_LOGS:
            oldest = next(iter(self._logs))
            del self._logs[oldest]
            oldest.unlink(missing_ok=True)
