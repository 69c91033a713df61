"""Say what costs the time of a training and what would help."""

from __future__ import annotations

import shutil
from pathlib import Path

from autoaccel.advise.diagnosing import diagnose
from autoaccel.machine.conditions import Watch
from autoaccel.machine.throttling import watch_throttling
from autoaccel.records.advice import Advice
from autoaccel.records.messages import Failure
from autoaccel.records.settings import Settings
from autoaccel.records.workload import Workload
from autoaccel.space.knobs import KnobContext
from autoaccel.workers.describing import START_SECONDS, probe_and_describe, workload_error
from autoaccel.workers.profiling import ask_profile, profile_task
from autoaccel.workers.starter import WorkerStarter
from autoaccel.workers.temporary import TemporaryFolder

_PROFILE_SECONDS = 2.0


def advise_workload(workload: Workload, trace_path: Path | None = None, board_path: Path | None = None) -> Advice:
    """Return what costs the time under the user's own settings, and what would help.

    Args:
        workload: The training.
        trace_path: Where a trace of some steps goes; None for nowhere.
        board_path: Folder for TensorBoard, which must be installed; None for none.

    Raises:
        BadRequestError: If build() returns the wrong thing.
        WorkloadFailedError: If it fails.
    """
    watch = Watch.begin()
    with TemporaryFolder() as temporary, WorkerStarter(temporary.path, workload) as starter:
        machine, facts = probe_and_describe(starter, workload, START_SECONDS)
        starter = starter.at(KnobContext(machine, facts))
        # Only what the user has declared: what brings every other knob's default to bear is no work of the user's.
        baseline: Settings = dict(facts.settings)
        # Within our own folder: what a script's process writes elsewhere goes with it.
        trace = temporary.path / trace_path.name if trace_path else None
        board = temporary.path / "board" if board_path else None
        task = profile_task(machine, _PROFILE_SECONDS, trace, board)
        with watch_throttling() as throttling:
            answer = ask_profile(starter, task, baseline, START_SECONDS)
        if trace_path and trace and trace.exists():
            shutil.copyfile(trace, trace_path)
        if board_path and board and board.exists():
            shutil.copytree(board, board_path, dirs_exist_ok=True)
    if isinstance(answer, Failure):
        raise workload_error(answer, workload, "while it was profiled")
    machine_conditions = watch.conditions(gpu_throttling=throttling)
    diagnosis = diagnose(answer, machine, facts, machine_conditions)
    return Advice(
        findings=diagnosis.findings,
        profile=diagnosis.profile,
        machine=machine,
        ceilings=diagnosis.ceilings,
        conditions=answer.conditions,
        machine_conditions=machine_conditions,
    )
