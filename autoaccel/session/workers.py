"""What a session asks of workers before and beside the search: the machine, the workload, the baseline, the metric."""

from __future__ import annotations

from pathlib import Path

import msgspec

from autoaccel.errors import AutoaccelError, BadRequestError, WorkloadFailedError
from autoaccel.launch.runner import Runner
from autoaccel.machine.detect import detect_machine
from autoaccel.machine.gpus import read_gpu_use
from autoaccel.records.machine import Machine
from autoaccel.records.trial import Answer, Describe, Described, Failure, Probe, Probed
from autoaccel.records.workload import TrainingFacts, Workload

PROBE_SECONDS = 120.0


def probe_machine(runner: Runner) -> Machine:
    """Return this machine, what torch can do here included.

    Raises:
        AutoaccelError: If torch cannot be imported.
    """
    probed = runner.ask(Probe(), {}, "probe", Probed, PROBE_SECONDS)
    if isinstance(probed, Failure):
        detail = probed.log_tail or probed.message
        raise AutoaccelError(f"torch does not work in this environment; `python -c 'import torch'` shows it:\n{detail}")
    return msgspec.structs.replace(detect_machine(), torch=probed.facts)


def describe_workload(runner: Runner, workload: Workload, timeout_seconds: float) -> TrainingFacts:
    """Return what the user's build() returns, as data.

    Raises:
        BadRequestError: If it returns the wrong thing.
        WorkloadFailedError: If it fails, with the user's own traceback.
    """
    return _facts_of(runner.ask(Describe(), {}, "describe", Described, timeout_seconds), runner, workload)


def _facts_of(described: Answer, runner: Runner, workload: Workload) -> TrainingFacts:
    if isinstance(described, Failure):
        # What the code raises in a step, it raises again when that is measured; a crash may come of either.
        by_build = described.kind in ("raised", "invalid")
        when = f"while {workload.entry}() was called" + ("" if by_build else " or its first step was made")
        raise workload_error(described, workload, when)
    if not isinstance(described, Described):
        raise AutoaccelError(f"the worker that was to describe {workload.path} answered out of turn")
    runner.modules += described.modules
    return described.facts


def probe_and_describe(runner: Runner, workload: Workload, timeout_seconds: float) -> tuple[Machine, TrainingFacts]:
    """Return what `probe_machine` and `describe_workload` do, in the time of the longer.

    Raises:
        AutoaccelError: If torch cannot be imported.
        BadRequestError: If build() returns the wrong thing.
        WorkloadFailedError: If it fails, with the user's own traceback.
    """
    # A step of the training is made: where only one process may use a GPU, not while another asks it what it can do.
    alone = any(gpu.is_exclusive for gpu in read_gpu_use())
    machine = probe_machine(runner) if alone else None
    describing = runner.start(Describe(), {}, "describe")
    try:
        machine = machine or probe_machine(runner)
        return machine, _facts_of(describing.receive(timeout_seconds), runner, workload)
    finally:
        describing.close()  # its step may have started loader workers, which would load on beside what is measured


def workload_error(failure: Failure, workload: Workload, when: str) -> AutoaccelError:
    """Return the error that tells a person how their own code failed."""
    name = Path(workload.path).name
    if failure.kind == "invalid":
        return BadRequestError(failure.message if failure.message.startswith(name) else f"{name}: {failure.message}")
    hint = " Give it more time with --budget." if failure.kind == "hung" else ""
    shown = failure.traceback or failure.log_tail
    return WorkloadFailedError(f"{name} failed {when}: {failure.message}.{hint}" + (f"\n\n{shown}" if shown else ""))
