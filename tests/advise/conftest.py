"""Observations without a problem, to plant one in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autoaccel.advise.observations import Observations
from autoaccel.records.machine import Machine
from autoaccel.records.workload import TrainingFacts

from .samples import CONDITIONS, MACHINE_CONDITIONS, RATES, changed, profile

MakeObserved = Callable[..., Observations]


@pytest.fixture
def make_observed(machine: Machine, facts: TrainingFacts) -> MakeObserved:
    """Return observations without a problem, changed: records by name, or changes of a record's fields as a dict."""

    def make(**changes: Any) -> Observations:
        plain: dict[str, Any] = {
            "profile": profile(),
            "machine": machine,
            "conditions": CONDITIONS,
            "rates": RATES,
            "training": facts,
            "machine_conditions": MACHINE_CONDITIONS,
        }
        for name, change in changes.items():
            plain[name] = changed(plain[name], change)
        return Observations(**plain)

    return make
