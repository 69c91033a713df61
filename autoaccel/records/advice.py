"""Advice: what `autoaccel advise` says."""

from __future__ import annotations

from autoaccel.records.base import Record
from autoaccel.records.circumstances import Circumstances, Surroundings
from autoaccel.records.machine import Machine
from autoaccel.records.profile import Finding, Profile
from autoaccel.records.rates import Rates, Roofline


class Advice(Record, frozen=True):
    """What costs the time of a training, what would help, and what that rests on."""

    findings: tuple[Finding, ...]  # the most valuable first
    profile: Profile
    machine: Machine
    rates: Rates | None
    roofline: Roofline | None
    circumstances: Circumstances | None
    surroundings: Surroundings
