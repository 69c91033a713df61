"""Ask workers what a script does, and how fast."""

from __future__ import annotations

from autoaccel.records.messages import Describe, Described, Failure, Measure
from autoaccel.records.settings import Settings
from autoaccel.records.workload import TrainingFacts
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.starter import WorkerStarter
from tests.this_machine import probe_machine

SECONDS = 300.0


def describe(starter: WorkerStarter) -> TrainingFacts | Failure:
    answer = starter.ask(Describe(), {}, "describe", Described, SECONDS)
    return answer.facts if isinstance(answer, Described) else answer


def measuring(starter: WorkerStarter, changes: Settings, task: Measure | None = None) -> tuple[Measuring, Settings]:
    facts = describe(starter)
    assert isinstance(facts, TrainingFacts), facts
    context = KnobContext(probe_machine(starter), facts)
    settings = {**baseline_settings(context), **changes}
    found = starter.at(context).start_all_measuring(task or Measure(), {"trial": settings}, SECONDS)[0]
    assert isinstance(found, Measuring), found
    return found, settings
