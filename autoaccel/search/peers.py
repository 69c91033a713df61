"""Peers: the workers of a study, each of which shows that it is alive.

A worker counts as alive as long as others see new beats, by their own clocks: those of two machines may differ.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from typing import Any

import msgspec
from optuna.storages import BaseStorage

from autoaccel.errors import BadRequestError
from autoaccel.records.base import MAX_REASON, Record, decode, encode
from autoaccel.records.settings import Settings, settings_key
from autoaccel.search.attributes import reached
from autoaccel.units import excerpt

BEAT_SECONDS = 5.0
"""How often a worker shows that it is alive."""

GRACE_SECONDS = 60.0
"""A worker that has not shown it for so long is taken for dead, and what it measured is left to the others.

Longer than the lock of a journal survives its holder: while that is waited for nobody can write.
"""

_POLL_SECONDS = 1.0  # between two looks of a worker that waits for the others


class WorkerState(Record, frozen=True):
    """What a worker shows of itself."""

    host: str
    beats: int
    left: bool = False
    judged: tuple[str, ...] = ()  # keys of settings that it has proven or refuted


class Peers:
    """One worker, and what it sees of the others."""

    def __init__(self, storage: BaseStorage, study_id: int, host: str, grace_seconds: float) -> None:
        """Join after all workers that are there; nobody else sees this one before its first `beat`.

        Args:
            storage: Of the study.
            study_id: The storage's own.
            host: What others call this machine.
            grace_seconds: How long a worker may be silent.

        Raises:
            AutoaccelError: If the storage cannot be reached, as everything else here does.
        """
        self._storage = storage
        self._id = study_id
        self.grace_seconds = grace_seconds
        self.poll_seconds = min(_POLL_SECONDS, grace_seconds / 4)
        """Between two looks of a worker that waits for the others."""
        self._watched: dict[str, tuple[int, float]] = {}  # worker -> its beats, and since when there are that many
        self._state = WorkerState(host, 0)
        self._writing = threading.Lock()  # beats come from a thread of their own
        with reached():
            self.number = len(self.states())
            """How many workers came before: the first that is alive proves what all have found."""
        self.worker = f"worker {self.number:05d} {host} {os.getpid()} {secrets.token_hex(4)}"
        """What others know this worker by."""

    def beat(self) -> None:
        """Show that this worker is alive."""
        self._show(beats=self._state.beats + 1)

    def leave(self) -> None:
        """Say that this worker is gone."""
        self._show(left=True)

    def show_judged(self, settings: Settings) -> None:
        """Say that this worker has proven or refuted these settings."""
        self._show(judged=(*self._state.judged, settings_key(settings)))

    def judged_by(self, settings: Settings) -> str | None:
        """Return the host of another worker that has proven or refuted these settings, if one has."""
        with reached():
            key, workers = settings_key(settings), self.states()
            return next(
                (workers[one].host for one in workers if one != self.worker and key in workers[one].judged), None
            )

    def first_live(self) -> str | None:
        """Return the host of the first worker that is alive, None if that is this one.

        It must beat once more first: a worker that trusted an old beat might leave as the last one alive.
        """
        with reached():
            seen: dict[str, int] = {}
            while True:
                live = self.live()
                first = min([self.worker, *live])
                if first == self.worker:
                    return None
                if live[first].beats != seen.setdefault(first, live[first].beats):
                    return live[first].host
                time.sleep(self.poll_seconds)

    def _show(self, **changes: Any) -> None:
        with reached(), self._writing:
            self._state = msgspec.structs.replace(self._state, **changes)
            self._storage.set_study_user_attr(self._id, self.worker, encode(self._state).decode())

    def states(self) -> dict[str, WorkerState]:
        """Return what each worker shows of itself, this one's last state in the storage included."""
        attributes = self._storage.get_study_user_attrs(self._id)
        workers = {name: text for name, text in attributes.items() if name.startswith("worker ")}
        try:
            return {name: decode(text, WorkerState) for name, text in workers.items()}
        except (msgspec.MsgspecError, TypeError) as error:
            reason = excerpt(str(error), MAX_REASON)
            raise BadRequestError(
                f"a worker of the study: {reason}. Something else writes to it: use another --study."
            ) from error

    def live(self) -> dict[str, WorkerState]:
        """Return the others that are alive: they have beaten within the grace period."""
        now = time.monotonic()
        live = {}
        for worker, state in self.states().items():
            if worker == self.worker or state.left:
                continue
            if self._watched.get(worker, (-1, now))[0] != state.beats:
                self._watched[worker] = (state.beats, now)
            if now - self._watched[worker][1] <= self.grace_seconds:
                live[worker] = state
        return live
