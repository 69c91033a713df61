"""What is asked of workers before anything else, and in what order."""

from __future__ import annotations

from typing import Any

import pytest

from autoaccel.errors import BadRequestError
from autoaccel.machine.gpus import GpuUse
from autoaccel.records.machine import Machine
from autoaccel.records.messages import Described, Failure
from autoaccel.records.workload import BuildFunction, TrainingFacts
from autoaccel.workers import describing


@pytest.mark.parametrize(
    ("is_exclusive", "order"),
    [(False, ["describe", "probe", "ended"]), (True, ["probe", "describe", "ended"])],
)
def test_a_gpu_for_one_process_is_not_asked_about_while_the_training_makes_a_step(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, facts: TrainingFacts, is_exclusive: bool, order: list[str]
) -> None:
    """The one found every GPU busy; and loader workers of the step that was made loaded on beside what is measured."""
    happened: list[str] = []

    class WorkerStarter:
        def start(self, *arguments: Any) -> WorkerStarter:
            happened.append("describe")
            return self

        def receive_description(self, worker: WorkerStarter, timeout_seconds: float) -> Described:
            return Described(facts=facts, modules=())

        def close(self) -> None:
            happened.append("ended")

    def probe(starter: WorkerStarter) -> Machine:
        happened.append("probe")
        return machine

    monkeypatch.setattr(describing, "probe_machine", probe)
    monkeypatch.setattr(describing, "read_gpu_use", lambda: (GpuUse("GPU-0", 0, 1 << 30, is_exclusive),))
    workload = BuildFunction("/model.py", "build", "0" * 64)
    assert describing.probe_and_describe(WorkerStarter(), workload, 1.0) == (machine, facts)  # type: ignore[arg-type]  # a stand-in, which starts nothing
    assert happened == order


@pytest.mark.parametrize(
    "message", ["build() must return an autoaccel.Training, got int.", "model.py is not a tensor."]
)
def test_what_is_wrong_with_the_users_file_is_told_with_its_name_once(message: str) -> None:
    """Whether to prepend the name was read off the sentence, which may begin with it by chance."""
    workload = BuildFunction("/folder/model.py", "build", "0" * 64)
    error = describing.workload_error(Failure("invalid", message), workload, "under your own settings")
    assert isinstance(error, BadRequestError) and str(error) == f"model.py: {message}"


def test_divergence_is_told_as_such() -> None:
    failure = Failure("diverged", "after 21 steps accuracy is nan, the loss nan")
    error = describing.workload_error(failure, BuildFunction("/w/model.py", "build", ""), "under your own settings")
    assert str(error).startswith(
        "model.py: your own training diverges under your own settings: after 21 steps accuracy is nan, the loss nan. "
    )
    assert error.exit_code == 3 and "failed" not in str(error)
