"""What the rules read off a profile and the circumstances it was taken in."""

from __future__ import annotations

from autoaccel.advise.evidence import Evidence
from autoaccel.advise.rules import RULES
from autoaccel.records.circumstances import Circumstances, Surroundings
from autoaccel.records.machine import Machine
from autoaccel.records.profile import Finding, Profile
from autoaccel.records.rates import Rates
from autoaccel.records.workload import TrainingFacts


def advise(
    profile: Profile,
    machine: Machine,
    circumstances: Circumstances | None = None,
    rates: Rates | None = None,
    training: TrainingFacts | None = None,
    surroundings: Surroundings | None = None,
) -> list[Finding]:
    """Return what the rules find, what remedies usually win most from first; rules without evidence say nothing."""
    evidence = Evidence(profile, machine, circumstances, rates, training, surroundings)
    found = [finding for rule in RULES.values() if (finding := rule(evidence)) is not None]
    return sorted(found, key=lambda finding: (-finding.expected_speedup, -finding.bound_speedup))
