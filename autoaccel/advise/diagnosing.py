"""Diagnosis: all that a profile says of a training."""

from __future__ import annotations

from autoaccel.advise.demand import demand_of
from autoaccel.advise.findings import advise
from autoaccel.advise.roofline import roofline
from autoaccel.records.advice import Diagnosis
from autoaccel.records.circumstances import Surroundings
from autoaccel.records.machine import Machine
from autoaccel.records.rates import RateLimits
from autoaccel.records.trial import Profiled
from autoaccel.records.workload import TrainingFacts


def diagnose(profiled: Profiled, machine: Machine, facts: TrainingFacts, surroundings: Surroundings) -> Diagnosis:
    """Return what a profile says of a training that runs here."""
    profile, circumstances, rates = profiled.profile, profiled.circumstances, profiled.rates
    return Diagnosis(
        findings=tuple(advise(profile, machine, circumstances, rates, facts, surroundings)),
        profile=profile,
        limits=RateLimits(rates, roofline(profile, machine, rates, circumstances)) if rates else None,
        demand=demand_of(profile, circumstances, facts),
    )
