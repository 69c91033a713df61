"""Ask workers what torch can do on this machine, and what the user's build() returns."""

from __future__ import annotations

from pathlib import Path

import msgspec

from autoaccel.errors import AutoaccelError, BadRequestError, WorkloadFailedError
from autoaccel.machine.detect import detect_machine
from autoaccel.machine.gpus import read_gpu_use
from autoaccel.records.machine import Machine
from autoaccel.records.messages import Describe, Described, Failure, Probe, Probed
from autoaccel.records.workload import TrainingFacts, Workload
from autoaccel.workers.look_wait import LookWait
from autoaccel.workers.starter import WorkerStarter

PROBE_SECONDS = 120.0
START_SECONDS = 600.0  # for a build() outside any budget


class LookEndedError(Exception):
    """The first look at a training took longer than it may; with the end of its log."""


def probe_machine(starter: WorkerStarter) -> Machine:
    """Return this machine, including what torch can do here.

    Raises:
        AutoaccelError: If torch cannot be imported.
    """
    probed = starter.ask(Probe(), {}, "probe", Probed, PROBE_SECONDS)
    if isinstance(probed, Failure):
        detail = probed.log_tail or probed.message
        raise AutoaccelError(
            f"torch does not work in this environment; `python -c 'import torch'` shows the error:\n{detail}"
        )
    return msgspec.structs.replace(detect_machine(), torch=probed.facts)


def describe_workload(starter: WorkerStarter, workload: Workload, timeout_seconds: float) -> TrainingFacts:
    """Return what the user's build() returns, as data.

    Raises:
        BadRequestError: If it returns the wrong thing.
        WorkloadFailedError: If it fails, with the user's own traceback.
    """
    described = starter.receive_description(starter.start(Describe(), {}, "describe"), timeout_seconds)
    return _facts_of(described, workload)


def _facts_of(described: Described | Failure, workload: Workload) -> TrainingFacts:
    if isinstance(described, Described):
        return described.facts
    # An error that the code raises in a step comes again when that is measured; a crash may come of build() or a step.
    by_build = described.kind in ("raised", "busy", "invalid")
    when = f"while {workload.start}" + ("" if by_build else " or its first step was made")
    raise workload_error(described, workload, when)


def probe_and_describe(
    starter: WorkerStarter, workload: Workload, waits: float | LookWait
) -> tuple[Machine, TrainingFacts]:
    """Return what `probe_machine` and `describe_workload` return, in the time of the slower one.

    Args:
        starter: Starts the workers.
        workload: What is described.
        waits: See `WorkerStarter.receive_description`.

    Raises:
        AutoaccelError: If torch cannot be imported.
        BadRequestError: If build() returns the wrong thing.
        WorkloadFailedError: If it fails, with the user's own traceback.
        LookEndedError: If it takes longer than it may.
    """
    # Describing makes a step: where only one process may use a GPU, no other may ask the GPU what it can do meanwhile.
    alone = any(gpu.is_exclusive for gpu in read_gpu_use())
    machine = probe_machine(starter) if alone else None
    describing = starter.start(Describe(tells_first_step=isinstance(waits, LookWait)), {}, "describe")
    try:
        machine = machine or probe_machine(starter)
        described = starter.receive_description(describing, waits)
        if isinstance(waits, LookWait) and isinstance(described, Failure) and described.kind == "hung":
            raise LookEndedError(described.log_tail)
        return machine, _facts_of(described, workload)
    finally:
        describing.close()


def workload_error(failure: Failure, workload: Workload, when: str) -> AutoaccelError:
    """Return the error that tells a person how their own code failed."""
    name = Path(workload.path).name
    if failure.kind == "invalid":
        return BadRequestError(f"{name}: {failure.message}")
    if failure.kind == "diverged":
        return WorkloadFailedError(
            f"{name}: your own training diverges {when}: {failure.message}. Its loss must stay a finite number before "
            "anything can be tuned: lower its learning rate, or look at its data."
        )
    hint = " Give it more time with --budget." if failure.kind == "hung" else ""
    shown = failure.traceback or failure.log_tail
    return WorkloadFailedError(f"{name} failed {when}: {failure.message}.{hint}" + (f"\n\n{shown}" if shown else ""))
