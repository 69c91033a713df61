"""What the rules read off a profile and the conditions that it was taken under."""

from __future__ import annotations

import msgspec

from autoaccel.advise.observations import Observations
from autoaccel.advise.rules import RULES
from autoaccel.advise.rules.evaluation import RULES as EVALUATION
from autoaccel.advise.rules.machine import RULES as MACHINE
from autoaccel.records.profile import Finding

BEYOND_ROOFLINE = frozenset(
    {
        *MACHINE,
        *EVALUATION,
        "throttled-gpu",
        "held-back",
        "swapping",
        "tiny-batch",
        "wide-layers",
        "epoch-start",
    }
)
"""Findings that the roofline does not bound. Their remedies change how much work a sample is, or the rates that were
measured, or their shares are not of a step."""


def advise(observed: Observations) -> list[Finding]:
    """Return what the rules find, ordered by what their remedies usually win, the most first.

    No bound is above the roofline of the step, except for remedies that change the work or what the machine can do.
    """
    found = [_within(finding, observed.max_speedup) for rule in RULES.values() if (finding := rule(observed))]
    return sorted(found, key=lambda finding: (-finding.expected_speedup, -finding.bound_speedup))


def _within(finding: Finding, max_speedup: float) -> Finding:
    """Return the finding with no larger bound than this."""
    if finding.code in BEYOND_ROOFLINE or finding.bound_speedup <= max_speedup:
        return finding
    expected = min(finding.expected_speedup, max_speedup)
    return msgspec.structs.replace(finding, bound_speedup=max_speedup, expected_speedup=expected)
