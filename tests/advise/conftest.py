"""Evidence without a problem, to plant one in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autoaccel.advise.evidence import Evidence
from autoaccel.records.machine import Machine
from autoaccel.records.workload import TrainingFacts

from .samples import CIRCUMSTANCES, RATES, SURROUNDINGS, changed, profile

MakeEvidence = Callable[..., Evidence]


@pytest.fixture
def make_evidence(machine: Machine, facts: TrainingFacts) -> MakeEvidence:
    """Return evidence without a problem, with changes: records by name, or changes of a record's fields as a dict."""

    def make(**changes: Any) -> Evidence:
        plain: dict[str, Any] = {
            "profile": profile(),
            "machine": machine,
            "circumstances": CIRCUMSTANCES,
            "rates": RATES,
            "training": facts,
            "surroundings": SURROUNDINGS,
        }
        for name, change in changes.items():
            plain[name] = changed(plain[name], change)
        return Evidence(**plain)

    return make
