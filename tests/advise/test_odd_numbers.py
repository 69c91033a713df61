"""Profiles of odd numbers, as of steps that take no time: they say little, and end no run."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from autoaccel.advise.diagnosing import diagnose
from autoaccel.records.base import decode, encode
from autoaccel.records.machine import Machine
from autoaccel.records.messages import Profiled
from autoaccel.records.workload import TrainingFacts

from .samples import CONDITIONS, MACHINE_CONDITIONS, RATES, profile

ODD = (0, 1e-300, 1e300)


def odd(value: Any, chance: float, numbers: random.Random) -> Any:
    """Return what was decoded from JSON with some of its numbers replaced."""
    if isinstance(value, dict):
        return {name: odd(one, chance, numbers) for name, one in value.items()}
    if isinstance(value, list):
        kept = [] if numbers.random() < chance / 4 else value
        return [odd(one, chance, numbers) for one in kept]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or numbers.random() > chance:
        return value
    return numbers.choice(ODD) if isinstance(value, float) else numbers.choice((0, 1, 10**15))


@pytest.mark.parametrize("chance", [0.02, 0.1, 0.5, 1.0])
def test_no_profile_ends_a_run(chance: float, machine: Machine, facts: TrainingFacts) -> None:
    plain = msgspec.json.decode(encode(Profiled(profile(), CONDITIONS, RATES)))
    numbers, taken = random.Random(0), 0
    for _ in range(300):
        try:
            found = decode(msgspec.json.encode(odd(plain, chance, numbers)), Profiled)
        except msgspec.MsgspecError:
            continue  # a worker that sends this is told so
        taken += 1
        diagnose(found, machine, facts, MACHINE_CONDITIONS)
    assert taken
