"""SharedStudy: what several machines of one kind find out together, in a storage of Optuna's. Nobody leads.

Each of Optuna's trials here is a claim on settings: RUNNING while its worker measures them, then finished with the
record of the trial in its attributes. A claim counts if no earlier one, in the order that the storage gives them, holds
the same settings. A worker counts as alive as long as others see its beats go on, by their own clocks: those of two
machines may differ.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import msgspec
import sqlalchemy.exc
from optuna.exceptions import DuplicatedStudyError, StorageInternalError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from autoaccel.errors import AutoaccelError
from autoaccel.records.base import Record, RecordType, decode, encode
from autoaccel.records.settings import Settings, settings_key
from autoaccel.records.study import Look, StudyHead
from autoaccel.records.trial import Trial
from autoaccel.search.storage import first_line

BEAT_SECONDS = 5.0
"""How often a worker shows that it is alive."""

GRACE_SECONDS = 60.0
"""A worker that has not shown it for so long is taken for dead, and what it measured is left to the others.

Longer than the lock of a journal survives its holder: while that is waited for nobody can write.
"""

_POLL_SECONDS = 1.0  # between two looks of a worker that waits for the others
_MOST_DEATHS = 2  # of workers, while they measured the same settings: after that nobody tries these again
_PIECE = 10_000  # characters of an attribute: MySQL holds 65,535 bytes, and JSON makes up to six of a character

GivenUp = Literal["duplicate", "interrupted", "silent"]


class Claim(NamedTuple):
    """Settings that a worker set out to measure, and what came of it."""

    number: int  # in the order of the study
    worker: str
    settings: Settings
    reading: int  # how often they had been measured before
    running: bool
    finished: bool  # its record is complete
    given_up: str | None

    @property
    def key(self) -> str:
        """Equal for equal settings."""
        return settings_key(self.settings)

    @property
    def holds(self) -> bool:
        """Whether nobody else should measure the same."""
        return self.running or self.finished


class WorkerState(Record, frozen=True):
    """What a worker shows of itself."""

    host: str
    beats: int
    left: bool = False
    judged: tuple[str, ...] = ()  # keys of settings that it has proven or refuted


class SharedStudy:
    """One worker's view of a study, and its door to it."""

    def __init__(self, storage: BaseStorage, name: str, host: str, grace_seconds: float = GRACE_SECONDS) -> None:
        """Open the study, or begin it; nobody else sees this worker before its first `beat`.

        Args:
            storage: From `open_storage`.
            name: Of the study.
            host: What others call this machine.
            grace_seconds: How long a worker may be silent.

        Raises:
            AutoaccelError: If the storage cannot be reached, as everything else here does.
        """
        self.name = name
        self._storage = storage
        self._host = host
        self._grace_seconds = grace_seconds
        self._told: set[int] = set()  # numbers of finished trials of others
        self._watched: dict[str, tuple[int, float]] = {}  # worker -> its beats, and since when they are so many
        self._running: set[int] = set()  # others' claims at the last look
        self._claimed: int | None = None  # Optuna's id of the own claim
        self._state = WorkerState(host, 0)
        self._writing = threading.Lock()  # beats come from a thread of their own
        with _reached():
            try:
                self._id = storage.create_new_study([StudyDirection.MINIMIZE], name)
            except DuplicatedStudyError:
                self._id = storage.get_study_id_from_name(name)
            # Workers are ranked by when they came: the first proves what all have found.
            rank = len(self._workers())
        self.worker = f"worker {rank:05d} {host} {os.getpid()} {secrets.token_hex(4)}"

    # --- what all start from -------------------------------------------------------------------------------

    def head(self) -> StudyHead | None:
        """Return what the study starts from; None if it has not begun."""
        with _reached():
            for trial in self._trials():
                if found := _read_record(trial, StudyHead, "head"):
                    return found
        return None

    def begin(self, head: StudyHead) -> StudyHead:
        """Offer what the study could start from; return what it does start from, if another was faster."""
        with _reached():
            template = create_trial(state=TrialState.FAIL, user_attrs=_pieces(head, "head"))
            self._storage.create_new_trial(self._id, template)
        return self.head() or head

    # --- who is alive --------------------------------------------------------------------------------------

    def beat(self) -> None:
        """Show that this worker is alive."""
        self._show(beats=self._state.beats + 1)

    def leave(self) -> None:
        """Give up what this worker measures, and say that it is gone."""
        with _reached():
            for claim in self._claims():
                if claim.worker == self.worker and claim.running:
                    self._give_up(claim.number, "interrupted")
        self._show(left=True)

    def show_judged(self, settings: Settings) -> None:
        """Say that this worker has proven or refuted these settings."""
        self._show(judged=(*self._state.judged, settings_key(settings)))

    def judged_by(self, settings: Settings) -> str | None:
        """Return the host of another worker that has proven or refuted these settings, if one has."""
        with _reached():
            key, workers = settings_key(settings), self._workers()
            return next(
                (workers[one].host for one in workers if one != self.worker and key in workers[one].judged), None
            )

    def first_live(self) -> str | None:
        """Return the host of the first worker that is alive, None if that is this one.

        It is asked for one more beat: who trusted an old one could leave, and with it the last that was alive.
        """
        with _reached():
            seen: dict[str, int] = {}
            while True:
                live = self._live()
                first = min([self.worker, *live])
                if first == self.worker:
                    return None
                if live[first].beats != seen.setdefault(first, live[first].beats):
                    return live[first].host
                time.sleep(min(_POLL_SECONDS, self._grace_seconds / 4))

    def _show(self, **changes: Any) -> None:
        with _reached(), self._writing:
            self._state = msgspec.structs.replace(self._state, **changes)
            self._storage.set_study_user_attr(self._id, self.worker, encode(self._state).decode())

    def _workers(self) -> dict[str, WorkerState]:
        attributes = self._storage.get_study_user_attrs(self._id)
        return {name: decode(text, WorkerState) for name, text in attributes.items() if name.startswith("worker ")}

    def _live(self) -> dict[str, WorkerState]:
        """Return the others that are alive: their beats went on within the grace before this look."""
        now = time.monotonic()
        live = {}
        for worker, state in self._workers().items():
            if worker == self.worker or state.left:
                continue
            if self._watched.get(worker, (-1, now))[0] != state.beats:
                self._watched[worker] = (state.beats, now)
            if now - self._watched[worker][1] <= self._grace_seconds:
                live[worker] = state
        return live

    # --- what is measured ----------------------------------------------------------------------------------

    def look(self) -> Look:
        """Return what the others have done and do; what a dead one measured is given up in its name."""
        with _reached():
            claims, live = self._claims(), self._live()
            silent = [claim for claim in claims if claim.running and claim.worker not in (self.worker, *live)]
            for claim in silent:
                self._give_up(claim.number, "silent")
            if silent:
                claims = self._claims()
            running = [claim for claim in claims if claim.running and claim.worker != self.worker]
            self._running = {claim.number for claim in running}
            deaths = Counter(claim.key for claim in claims if claim.given_up == "silent" and not claim.finished)
            deadly = {key for key, count in deaths.items() if count >= _MOST_DEATHS}
            taken = {claim.key for claim in claims if claim.holds} | deadly
            left = [claim for claim in claims if not claim.holds and claim.given_up != "duplicate"]
            orphans = {claim.key: claim.settings for claim in left if claim.key not in taken}
            busy = {claim.key for claim in running} | deadly
            return Look(self._news(claims), frozenset(busy), tuple(orphans.values()), bool(running))

    def _news(self, claims: Sequence[Claim]) -> tuple[Trial, ...]:
        """Return the trials that others have finished and that were not returned before."""
        hosts = {worker: state.host for worker, state in self._workers().items()}
        news = []
        for claim in claims:
            if claim.finished and claim.worker != self.worker and claim.number not in self._told:
                trial_id = self._storage.get_trial_id_from_study_id_trial_number(self._id, claim.number)
                if trial := _read_record(self._storage.get_trial(trial_id), Trial, "trial"):
                    news.append(msgspec.structs.replace(trial, host=hosts.get(claim.worker, "another machine")))
                self._told.add(claim.number)
        return tuple(news)

    def wait(self, seconds: float) -> None:
        """Wait until another has finished, begun or died, but not longer than so many seconds."""
        deadline = time.monotonic() + seconds
        with _reached():
            while time.monotonic() < deadline:
                live = self._live()
                if {
                    claim.number for claim in self._claims() if claim.running and claim.worker in live
                } != self._running:
                    return
                time.sleep(min(_POLL_SECONDS, self._grace_seconds / 4))

    def claim(self, settings: Settings, reading: int) -> bool:
        """Return whether this worker is to measure these settings: nobody was before it.

        Args:
            settings: What to measure.
            reading: How often they have been measured before.
        """
        with _reached():
            attributes = {"worker": self.worker, "settings": settings, "reading": reading}
            claimed = self._storage.create_new_trial(
                self._id, create_trial(state=TrialState.RUNNING, user_attrs=attributes)
            )
            number = self._storage.get_trial(claimed).number
            key = settings_key(settings)
            # The storage numbers trials one after the other, so that of two alike the later sees the earlier.
            for other in self._claims():
                same = other.number < number and (other.reading, other.key) == (reading, key)
                if same and other.holds:
                    self._give_up(number, "duplicate")
                    return False
            self._claimed = claimed
            return True

    def finish(self, trial: Trial) -> None:
        """Write down what came of the own claim.

        A worker that was taken for dead meanwhile, because its machine stood still, claims the same once more; if
        another has it, that one's trial counts.
        """
        assert self._claimed is not None  # whoever measures has claimed
        with _reached():
            try:
                self._write(self._claimed, trial)
            except UpdateFinishedTrialError:
                reading = int(self._storage.get_trial(self._claimed).user_attrs["reading"])
                if self.claim(trial.settings, reading):
                    self._write(self._claimed, trial)
            self._claimed = None

    def _write(self, claimed: int, trial: Trial) -> None:
        for name, piece in _pieces(trial, "trial").items():
            self._storage.set_trial_user_attr(claimed, name, piece)
        if trial.total_seconds is None:
            self._storage.set_trial_state_values(claimed, TrialState.FAIL)
        else:
            self._storage.set_trial_state_values(claimed, TrialState.COMPLETE, [trial.total_seconds])

    def _give_up(self, number: int, why: GivenUp) -> None:
        trial_id = self._storage.get_trial_id_from_study_id_trial_number(self._id, number)
        try:
            self._storage.set_trial_user_attr(trial_id, "given up", why)
            self._storage.set_trial_state_values(trial_id, TrialState.FAIL)
        except UpdateFinishedTrialError:
            pass  # its worker, or another that looked too, was faster

    def _trials(self) -> list[FrozenTrial]:
        return self._storage.get_all_trials(self._id, deepcopy=False)

    def _claims(self) -> list[Claim]:
        return [_claim_of(trial) for trial in self._trials() if "settings" in trial.user_attrs]


def _claim_of(trial: FrozenTrial) -> Claim:
    attributes = trial.user_attrs
    running = trial.state == TrialState.RUNNING
    return Claim(
        number=trial.number,
        worker=attributes["worker"],
        settings=attributes["settings"],
        reading=attributes["reading"],
        running=running,
        # Whoever has ended it: what is written whole counts.
        finished=not running and "trial" in attributes,
        given_up=attributes.get("given up"),
    )


def _pieces(record: Record, name: str) -> dict[str, str | int]:
    """Return attributes that hold a record; the last says how many there are, and is there if all are."""
    text = encode(record).decode()
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    return {**{f"{name} {number}": piece for number, piece in enumerate(pieces)}, name: len(pieces)}


def _read_record(trial: FrozenTrial, kind: type[RecordType], name: str) -> RecordType | None:
    """Return the record in a trial's attributes, None if there is none, or not all of it."""
    attributes = trial.user_attrs
    if name not in attributes:
        return None
    return decode("".join(attributes[f"{name} {number}"] for number in range(attributes[name])), kind)


@contextmanager
def _reached() -> Iterator[None]:
    """Tell in one sentence that the storage cannot be reached."""
    try:
        yield
    except (StorageInternalError, sqlalchemy.exc.SQLAlchemyError, OSError) as error:
        cause = error.__cause__ if isinstance(error, StorageInternalError) else error
        raise AutoaccelError(
            f"the storage of the study cannot be reached ({first_line(cause)}). Finished trials are kept in it and in "
            "the folder of the run; start the same command again to go on."
        ) from error
