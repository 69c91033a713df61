"""Share a study with workers on other machines: who may take part, who is alive, and who proves what all have found."""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from autoaccel import __version__
from autoaccel.errors import AutoaccelError, BadRequestError
from autoaccel.records.advice import Diagnosis
from autoaccel.records.machine import Machine
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.study import STUDY_SCHEMA, StudyBasis, StudyHead, basis_difference
from autoaccel.records.workload import Workload

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

    from autoaccel.search.shared import SharedStudy


class StudyAddress(NamedTuple):
    """Where a study is found."""

    storage: BaseStorage
    name: str | None  # None: one that only workers with the same basis come to


def find_study(where: str, name: str | None = None) -> StudyAddress:
    """Return the address of a study, its storage opened: what is wrong with that is told before anything is measured.

    Args:
        where: Path or URL of the storage.
        name: Of the study, if a person has chosen one.

    Raises:
        BadRequestError: If the storage cannot be opened.
    """
    # Not before somebody shares: the database library takes a while to import.
    from autoaccel.search.storage import open_storage

    return StudyAddress(open_storage(where), name)


def study_basis(workload: Workload, machine: Machine, own: Settings, space: SearchSpace) -> StudyBasis:
    """Return what must be equal before another machine's trials may be learned from."""
    return StudyBasis(
        autoaccel=__version__,
        workload_sha256=workload.sha256,
        entry=workload.entry,
        arguments=workload.arguments,
        fingerprint=machine.fingerprint,
        baseline_settings=own,
        open=space.open,
        fixed=space.fixed,
    )


@contextmanager
def join_study(address: StudyAddress, stem: str, basis: StudyBasis) -> Iterator[SharedStudy]:
    """Yield the study, as one of its workers, and show until the block ends that this one is alive.

    Args:
        address: From `find_study`.
        stem: How a study without a name is called, with a hash of the basis.
        basis: Of this worker.

    Raises:
        BadRequestError: If the study has another basis.
    """
    from autoaccel.search.shared import BEAT_SECONDS, SharedStudy

    study = SharedStudy(address.storage, address.name or f"{stem}-{basis.short_hash}", platform.node())
    _check_basis(study.head(), study.name, basis)
    with showing_life(study, BEAT_SECONDS):
        yield study


@contextmanager
def showing_life(study: SharedStudy, beat_seconds: float) -> Iterator[None]:
    """Beat, from a thread of its own because a trial takes minutes, until the block ends; then leave the study."""
    over = threading.Event()

    def go_on_beating() -> None:
        while not over.wait(beat_seconds):
            with suppress(AutoaccelError):  # the search will meet it too, and say so
                study.beat()

    study.beat()
    beating = threading.Thread(target=go_on_beating, name="beats", daemon=True)
    beating.start()
    try:
        yield
    finally:
        over.set()
        beating.join()
        with suppress(AutoaccelError):  # then they notice the silence
            study.leave()


def _check_basis(head: StudyHead | None, name: str, basis: StudyBasis) -> None:
    if head and (difference := basis_difference(head.basis, basis)):
        raise BadRequestError(
            f"--study {name}: was begun under other conditions ({difference}), so its trials say nothing here. Give "
            "another --study, or none: unlike machines are then kept apart."
        )


def agree_on_diagnosis(study: SharedStudy, basis: StudyBasis, diagnosis: Diagnosis | None) -> Diagnosis | None:
    """Return the diagnosis that all workers go by: of the one that was first.

    What a profile says differs a little from run to run; the same space must follow from it everywhere.

    Raises:
        BadRequestError: If another worker, with another basis, was faster.
    """
    head = study.head() or study.begin(StudyHead(STUDY_SCHEMA, basis, diagnosis))
    _check_basis(head, study.name, basis)
    return head.diagnosis


def proof_elsewhere(study: SharedStudy, best: Settings | None, trials: int) -> str | None:
    """Return the sentence for a worker that leaves the proof to another; None if it has to prove the best itself."""
    found = f"{trials} trials of all workers are in the study {study.name}"
    if host := study.first_live():
        return f"{found}; {host}, the first of its workers, proves the best and writes the recipe to its run folder"
    # Who was first until now may have left only when it was done.
    if best and (host := study.judged_by(best)):
        return f"{found}; {host} has had the best in its proof already: what came of it is in its run folder"
    return None
