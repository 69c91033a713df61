"""Share a study with workers on other machines: who may take part, who is alive, and who proves what all have found."""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from autoaccel.errors import AutoaccelError
from autoaccel.records.advice import Diagnosis
from autoaccel.records.conclusion import ProofElsewhere
from autoaccel.records.settings import Settings
from autoaccel.records.study import STUDY_SCHEMA, StudyBasis, StudyHead

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

    from autoaccel.search.study import SearchStudy
    from autoaccel.space.knobs import KnobContext


class StudyAddress(NamedTuple):
    """Where a study is found."""

    storage: BaseStorage
    name: str | None  # None: one that only workers with the same basis come to

    @contextmanager
    def join(self, stem: str, basis: StudyBasis, context: KnobContext | None = None) -> Iterator[SearchStudy]:
        """Yield the study, as one of its workers, and show until the block ends that this one is alive.

        Args:
            stem: How a study without a name is called, with a hash of the basis.
            basis: Of this worker.
            context: In which settings of others must be possible; see `SearchStudy.context`.

        Raises:
            BadRequestError: If the study has another basis.
        """
        from autoaccel.search.peers import BEAT_SECONDS
        from autoaccel.search.study import SearchStudy

        study = SearchStudy(self.storage, self.name or f"{stem}-{basis.short_hash}", platform.node())
        if head := study.head():
            head.must_have(basis, study.name)
        with showing_life(study, BEAT_SECONDS):
            study.context = context
            yield study


def find_study(where: str, name: str | None = None) -> StudyAddress:
    """Return the address of a study, its storage opened: what is wrong with that is told before anything is measured.

    Args:
        where: Path or URL of the storage.
        name: Of the study, if a person has named it.

    Raises:
        BadRequestError: If the storage cannot be opened.
    """
    from autoaccel.search.storage import open_storage

    return StudyAddress(open_storage(where), name)


def begin_study(path: Path, name: str) -> SearchStudy:
    """Return the new study of a run that searches alone.

    Args:
        path: Of its file. That of an earlier part of the run is replaced, and its trials are told again: a value that
            was open then may be closed by now, which Optuna takes for another search space.
        name: Of the study.
    """
    from autoaccel.search.storage import open_storage
    from autoaccel.search.study import SearchStudy

    for left in (path, path.with_name(f"{path.name}.lock")):
        left.unlink(missing_ok=True)
    return SearchStudy(open_storage(str(path)), name, platform.node())


@contextmanager
def showing_life(study: SearchStudy, beat_seconds: float) -> Iterator[None]:
    """Beat, from a thread of its own because a trial takes minutes, until the block ends; then leave the study."""
    over = threading.Event()

    def keep_beating() -> None:
        while not over.wait(beat_seconds):
            with suppress(AutoaccelError):  # the search will meet it too, and say so
                study.peers.beat()

    study.peers.beat()
    beating = threading.Thread(target=keep_beating, name="beats", daemon=True)
    beating.start()
    try:
        yield
    finally:
        over.set()
        beating.join()
        with suppress(AutoaccelError):  # then they notice the silence
            study.leave()


def agree_on_diagnosis(study: SearchStudy, basis: StudyBasis, diagnosis: Diagnosis | None) -> Diagnosis | None:
    """Return the diagnosis that all workers use: that of the first.

    What a profile says differs a little from run to run; the same space must follow from it everywhere.

    Raises:
        BadRequestError: If another worker, with another basis, was faster.
    """
    head = study.head() or study.begin(StudyHead(STUDY_SCHEMA, basis, diagnosis))
    head.must_have(basis, study.name)
    return head.diagnosis


def proof_elsewhere(study: SearchStudy, best: Settings | None) -> ProofElsewhere | None:
    """Return which other worker proves the best, or has; None if this one has to."""
    if host := study.peers.first_live():
        return ProofElsewhere(study.name, host, has_ended=False)
    # Who was first until now may have left only when it was done.
    if best and (host := study.peers.judged_by(best)):
        return ProofElsewhere(study.name, host, has_ended=True)
    return None
