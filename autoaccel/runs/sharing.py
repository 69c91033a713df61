"""Share a study with workers on other machines: who may take part, who is alive, and who proves what all have found."""

from __future__ import annotations

import hashlib
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from autoaccel import __version__
from autoaccel.errors import AutoaccelError, BadRequestError
from autoaccel.records.advice import Diagnosis
from autoaccel.records.base import encode
from autoaccel.records.conclusion import ProofElsewhere
from autoaccel.records.machine import Machine
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.study import STUDY_SCHEMA, StudyBasis, StudyHead, basis_difference
from autoaccel.records.workload import Workload, identity_of

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

    from autoaccel.search.study import SearchStudy


class StudyAddress(NamedTuple):
    """Where a study is found."""

    storage: BaseStorage
    name: str | None  # None: one that only workers with the same basis come to


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


def study_basis(workload: Workload, machine: Machine, baseline_settings: Settings, space: SearchSpace) -> StudyBasis:
    """Return what must be equal before another machine's trials may be learned from."""
    sha256, part, arguments = identity_of(workload)
    return StudyBasis(
        autoaccel=__version__,
        workload_sha256=sha256,
        entry=part,
        arguments=(hashlib.sha256(encode(arguments)).hexdigest(),) if arguments else (),  # all workers can read it
        fingerprint=machine.fingerprint,
        baseline_settings=baseline_settings,
        open=space.open,
        fixed=space.fixed,
    )


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
def join_study(address: StudyAddress, stem: str, basis: StudyBasis) -> Iterator[SearchStudy]:
    """Yield the study, as one of its workers, and show until the block ends that this one is alive.

    Args:
        address: From `find_study`.
        stem: How a study without a name is called, with a hash of the basis.
        basis: Of this worker.

    Raises:
        BadRequestError: If the study has another basis.
    """
    from autoaccel.search.peers import BEAT_SECONDS
    from autoaccel.search.study import SearchStudy

    study = SearchStudy(address.storage, address.name or f"{stem}-{basis.short_hash}", platform.node())
    _check_basis(study.head(), study.name, basis)
    with showing_life(study, BEAT_SECONDS):
        yield study


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


def _check_basis(head: StudyHead | None, name: str, basis: StudyBasis) -> None:
    """Refuse a study that has begun on another basis."""
    if head and (difference := basis_difference(head.basis, basis)):
        raise BadRequestError(
            f"--study {name}: was started under other conditions ({difference}), so its trials do not apply here. "
            "Use another --study, or none, which keeps different machines apart."
        )


def agree_on_diagnosis(study: SearchStudy, basis: StudyBasis, diagnosis: Diagnosis | None) -> Diagnosis | None:
    """Return the diagnosis that all workers use: that of the first.

    What a profile says differs a little from run to run; the same space must follow from it everywhere.

    Raises:
        BadRequestError: If another worker, with another basis, was faster.
    """
    head = study.head() or study.begin(StudyHead(STUDY_SCHEMA, basis, diagnosis))
    _check_basis(head, study.name, basis)
    return head.diagnosis


def proof_elsewhere(study: SearchStudy, best: Settings | None) -> ProofElsewhere | None:
    """Return which other worker proves the best, or has; None if this one has to."""
    if host := study.peers.first_live():
        return ProofElsewhere(study.name, host, has_ended=False)
    # Who was first until now may have left only when it was done.
    if best and (host := study.peers.judged_by(best)):
        return ProofElsewhere(study.name, host, has_ended=True)
    return None
