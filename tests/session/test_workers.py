"""What a session asks of workers before the search, and in what order."""

from __future__ import annotations

from typing import Any

import pytest

from autoaccel.machine.gpus import GpuUse
from autoaccel.records.machine import Machine
from autoaccel.records.trial import Described
from autoaccel.records.workload import TrainingFacts, Workload
from autoaccel.session import workers


@pytest.mark.parametrize(
    ("is_exclusive", "order"),
    [(False, ["describe", "probe", "ended"]), (True, ["probe", "describe", "ended"])],
)
def test_a_gpu_for_one_process_is_not_asked_about_while_the_training_makes_a_step(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, facts: TrainingFacts, is_exclusive: bool, order: list[str]
) -> None:
    """The one found every GPU busy; and loader workers of the step that was made loaded on beside what is measured."""
    happened: list[str] = []

    class Runner:
        modules: tuple[str, ...] = ()

        def start(self, *arguments: Any) -> Runner:
            happened.append("describe")
            return self

        def receive(self, timeout_seconds: float) -> Described:
            return Described(facts=facts, modules=())

        def close(self) -> None:
            happened.append("ended")

    def probe(runner: Runner) -> Machine:
        happened.append("probe")
        return machine

    monkeypatch.setattr(workers, "probe_machine", probe)
    monkeypatch.setattr(workers, "read_gpu_use", lambda: (GpuUse("GPU-0", 0, 1 << 30, is_exclusive),))
    workload = Workload("/model.py", "build", "0" * 64)
    assert workers.probe_and_describe(Runner(), workload, 1.0) == (machine, facts)  # type: ignore[arg-type]
    assert happened == order
