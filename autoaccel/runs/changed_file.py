"""Say so when the file of a training is edited while it is tuned."""

from __future__ import annotations

import contextlib
from pathlib import Path

from autoaccel.records.progress import Event, Listener, Note
from autoaccel.records.workload import Workload
from autoaccel.runs.workloads import digest_of, files_of


class FileWatch:
    """A listener that passes on all that it hears, and adds a note once the training's file is another."""

    def __init__(self, workload: Workload, listener: Listener) -> None:
        """Begin with the file as it was when the run began.

        Args:
            workload: Has its digest.
            listener: Of the run.
        """
        self._workload = workload
        self._listener = listener
        self._files = files_of(workload)
        self._seen = self._states()
        self._told = False

    def __call__(self, event: Event) -> None:
        """Pass an event on; between two events a trial or more was measured."""
        self._listener(event)
        if not self._told and (states := self._states()) != self._seen:
            self._seen = states
            if self._is_another():
                self._told = True
                self._listener(
                    Note(
                        f"{Path(self._workload.path).name} has changed since the run began: what was measured before "
                        "and after that is not the same training. Stop the run and tune again, or put the file back"
                    )
                )

    def _states(self) -> list[tuple[int, int, int] | None]:
        """Return what differs once a file is written: cheap, as reading a file while a step is timed is not."""
        states: list[tuple[int, int, int] | None] = []
        for file in self._files:
            state = None
            with contextlib.suppress(OSError):
                found = file.stat()
                state = found.st_ino, found.st_size, found.st_mtime_ns
            states.append(state)
        return states

    def _is_another(self) -> bool:
        try:
            return digest_of(self._files) != self._workload.sha256
        except OSError:
            return True
