"""Diagnosis: all that a profile says of a training."""

from __future__ import annotations

from autoaccel.advise.demand import demand_of
from autoaccel.advise.findings import advise
from autoaccel.advise.observations import Observations
from autoaccel.advise.roofline import roofline
from autoaccel.records.advice import Diagnosis
from autoaccel.records.conditions import MachineConditions
from autoaccel.records.machine import Machine
from autoaccel.records.messages import Profiled
from autoaccel.records.rates import Ceilings
from autoaccel.records.workload import TrainingFacts


def diagnose(
    profiled: Profiled, machine: Machine, facts: TrainingFacts, machine_conditions: MachineConditions
) -> Diagnosis:
    """Return what a profile says of a training that runs here."""
    profile, conditions, rates = profiled.profile, profiled.conditions, profiled.rates
    return Diagnosis(
        findings=tuple(advise(Observations(profile, machine, conditions, rates, facts, machine_conditions))),
        profile=profile,
        ceilings=Ceilings(rates, roofline(profile, machine, rates, conditions)) if rates else None,
        demand=demand_of(profile, conditions, facts),
    )
