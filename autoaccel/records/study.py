"""StudyBasis: what the machines of a study share. StudyHead: what all start from. PeerActivity: what the others do."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from autoaccel import __version__
from autoaccel.errors import BadRequestError
from autoaccel.records.advice import Diagnosis
from autoaccel.records.base import Record, encode
from autoaccel.records.machine import Machine
from autoaccel.records.settings import Settings, Value, changed, describe_change, format_value
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Trial
from autoaccel.records.workload import Workload, identity_of

STUDY_SCHEMA: Literal["autoaccel/study/2"] = "autoaccel/study/2"


class StudyBasis(Record, frozen=True):
    """What must be equal before the trials of several machines may be learned from together."""

    autoaccel: str  # version
    workload_sha256: str
    entry: str
    arguments: tuple[str, ...]  # the digest of the training's; none if it has none
    fingerprint: dict[str, str]  # of the machine
    baseline_settings: Settings
    open: dict[str, tuple[Value, ...]]  # of the search space, before a profile has narrowed it
    fixed: Settings

    @classmethod
    def of(cls, workload: Workload, machine: Machine, baseline_settings: Settings, space: SearchSpace) -> StudyBasis:
        """Return the basis of a worker that searches this space for a training on a machine."""
        sha256, part, arguments = identity_of(workload)
        return cls(
            autoaccel=__version__,
            workload_sha256=sha256,
            entry=part,
            arguments=(hashlib.sha256(encode(arguments)).hexdigest(),) if arguments else (),  # all workers can read it
            fingerprint=machine.fingerprint,
            baseline_settings=baseline_settings,
            open=space.open,
            fixed=space.fixed,
        )

    def difference_from(self, present: StudyBasis) -> str | None:
        """Return what sets another basis apart as `torch 2.11.0, here 2.13.0; ...`, or None if nothing does."""
        there, here = self.fingerprint, present.fingerprint
        found = [f"{name} {there[name]}, here {here.get(name)}" for name in there if there[name] != here.get(name)]
        if self.autoaccel != present.autoaccel:
            found.append(f"autoaccel {self.autoaccel}, here {present.autoaccel}")
        workload = ("workload_sha256", "entry", "arguments")
        if any(getattr(self, field) != getattr(present, field) for field in workload):
            found.append("another training: its file, its entry or its arguments differ")
        if self.baseline_settings != present.baseline_settings:
            found.append(
                f"baseline {describe_change(self.baseline_settings, present.baseline_settings)}, "
                f"here {describe_change(present.baseline_settings, self.baseline_settings)}"
            )
        elif self.open != present.open or self.fixed != present.fixed:
            found.append(f"another search space: {_space_difference(self, present)}")
        return "; ".join(found) or None

    @property
    def short_hash(self) -> str:
        """Eight hexadecimal digits that differ where anything here does."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:8]


class StudyHead(Record, frozen=True):
    """What the worker that began a study has found out; the others go by it, so that all search the same space."""

    schema: Literal["autoaccel/study/2"]
    basis: StudyBasis
    diagnosis: Diagnosis | None  # None where the first worker could take no profile

    def must_have(self, basis: StudyBasis, name: str) -> None:
        """Refuse to take part in the study of this name with another basis.

        Raises:
            BadRequestError: Naming what differs.
        """
        if difference := self.basis.difference_from(basis):
            raise BadRequestError(
                f"--study {name}: was started under other conditions ({difference}), so its trials do not apply here. "
                "Use another --study, or none, which keeps different machines apart."
            )


class PeerActivity(Record, frozen=True):
    """What the other workers have done and do."""

    trials: tuple[Trial, ...] = ()  # that they finished since the last look; the host of each says where
    busy: frozenset[str] = frozenset()  # keys of settings that are not to be measured now
    orphans: tuple[Settings, ...] = ()  # that one of them began to measure and none finished
    measuring: bool = False  # some of them measure


def _space_difference(recorded: StudyBasis, present: StudyBasis) -> str:
    def values(basis: StudyBasis, name: str) -> str:
        of_knob = basis.open.get(name) or ((basis.fixed[name],) if name in basis.fixed else ())
        return "|".join(map(format_value, of_knob)) or "no such knob"

    names = sorted({*recorded.open, *present.open, *changed(recorded.fixed, present.fixed)})
    differing = [name for name in names if values(recorded, name) != values(present, name)]
    return ", ".join(f"{name}={values(recorded, name)}, here {values(present, name)}" for name in differing[:3])
