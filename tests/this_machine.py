"""The machine that tests run on, asked once in each process of theirs."""

from __future__ import annotations

from autoaccel.records.machine import Machine
from autoaccel.workers import describing
from autoaccel.workers.starter import WorkerStarter

_ASKED: list[Machine] = []


def probe_machine(starter: WorkerStarter) -> Machine:
    """Return this machine, as `describing.probe_machine` does: a process that imports torch takes seconds."""
    if not _ASKED:
        _ASKED.append(describing.probe_machine(starter))
    return _ASKED[0]
