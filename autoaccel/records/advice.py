"""Diagnosis: what a profile says. Advice: what `autoaccel advise` says."""

from __future__ import annotations

import msgspec

from autoaccel.records.base import Record
from autoaccel.records.conditions import MachineConditions, TrainingConditions
from autoaccel.records.machine import Machine
from autoaccel.records.profile import Demand, Finding, Profile
from autoaccel.records.rates import Ceilings


class Diagnosis(Record, frozen=True):
    """Where the time of a step goes, why, and what the machine could do at most."""

    findings: tuple[Finding, ...]  # the most valuable first
    profile: Profile
    ceilings: Ceilings | None = msgspec.field(name="limits", default=None)  # None where nobody measured
    demand: Demand | None = None  # the same


class Advice(Record, frozen=True):
    """What costs the time of a training, what would help, and what that rests on."""

    findings: tuple[Finding, ...]  # the most valuable first
    profile: Profile
    machine: Machine
    ceilings: Ceilings | None = msgspec.field(name="limits")
    conditions: TrainingConditions | None = msgspec.field(name="circumstances")
    machine_conditions: MachineConditions = msgspec.field(name="surroundings")
