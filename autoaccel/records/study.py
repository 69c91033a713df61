"""StudyBasis: what the machines of a study share. StudyHead: what all start from. PeerActivity: what the others do."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from autoaccel.records.advice import Diagnosis
from autoaccel.records.base import Record
from autoaccel.records.settings import Settings, Value, changed, describe_change, format_value
from autoaccel.records.trial import Trial

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

    @property
    def short_hash(self) -> str:
        """Eight hexadecimal digits that differ where anything here does."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:8]


class StudyHead(Record, frozen=True):
    """What the worker that began a study has found out; the others go by it, so that all search the same space."""

    schema: Literal["autoaccel/study/2"]
    basis: StudyBasis
    diagnosis: Diagnosis | None  # None where the first worker could take no profile


class PeerActivity(Record, frozen=True):
    """What the other workers have done and do."""

    trials: tuple[Trial, ...] = ()  # that they finished since the last look; the host of each says where
    busy: frozenset[str] = frozenset()  # keys of settings that are not to be measured now
    orphans: tuple[Settings, ...] = ()  # that one of them began to measure and none finished
    measuring: bool = False  # some of them measure


def basis_difference(recorded: StudyBasis, present: StudyBasis) -> str | None:
    """Return what sets two bases apart as `torch 2.11.0, here 2.13.0; ...`, or None if nothing does."""
    there, here = recorded.fingerprint, present.fingerprint
    found = [f"{name} {there[name]}, here {here.get(name)}" for name in there if there[name] != here.get(name)]
    if recorded.autoaccel != present.autoaccel:
        found.append(f"autoaccel {recorded.autoaccel}, here {present.autoaccel}")
    workload = ("workload_sha256", "entry", "arguments")
    if any(getattr(recorded, field) != getattr(present, field) for field in workload):
        found.append("another training: its file, its entry or its arguments differ")
    if recorded.baseline_settings != present.baseline_settings:
        found.append(
            f"baseline {describe_change(recorded.baseline_settings, present.baseline_settings)}, "
            f"here {describe_change(present.baseline_settings, recorded.baseline_settings)}"
        )
    elif recorded.open != present.open or recorded.fixed != present.fixed:
        found.append(f"another search space: {_space_difference(recorded, present)}")
    return "; ".join(found) or None


def _space_difference(recorded: StudyBasis, present: StudyBasis) -> str:
    def values(basis: StudyBasis, name: str) -> str:
        of_knob = basis.open.get(name) or ((basis.fixed[name],) if name in basis.fixed else ())
        return "|".join(map(format_value, of_knob)) or "no such knob"

    names = sorted({*recorded.open, *present.open, *changed(recorded.fixed, present.fixed)})
    differing = [name for name in names if values(recorded, name) != values(present, name)]
    return ", ".join(f"{name}={values(recorded, name)}, here {values(present, name)}" for name in differing[:3])
