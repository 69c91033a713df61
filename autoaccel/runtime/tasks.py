"""What a worker does for each kind of task."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from autoaccel.records.base import Record
from autoaccel.records.messages import (
    Describe,
    Described,
    Failure,
    Measure,
    Probe,
    Probed,
    TakeProfile,
    Train,
    WorkerSpec,
)
from autoaccel.records.rounding import CompareUpdates, RecordUpdates
from autoaccel.records.workload import TrainingFunction
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.failures import failure_from
from autoaccel.runtime.ineffective import did_nothing
from autoaccel.runtime.leftovers import remove_folder_of_imports
from autoaccel.runtime.loading import Imports, build_training, describe, load_build
from autoaccel.runtime.looking import take_and_gather
from autoaccel.runtime.loop import Loop, device_of
from autoaccel.runtime.paced import Inspectable, Paced, not_inspectable
from autoaccel.runtime.pacer import Line, Pacer
from autoaccel.runtime.probing import probe_torch
from autoaccel.runtime.progress import Progress
from autoaccel.runtime.ranks import join_others
from autoaccel.runtime.rounding import compare_updates, record_updates
from autoaccel.runtime.steps import make_steps
from autoaccel.runtime.trainings import train
from autoaccel.runtime.user_code import read_user_code
from autoaccel.runtime.warmup import PROFILE_WARMUP_SECONDS, warming_up

# When this is imported: a fork server imports it for its workers, and is killed as they are.
remove_folder_of_imports()


def serve(spec: WorkerSpec, line: Line) -> Record | None:
    """Do the task; return its answer, the Failure that it met, or None if it was answered turn by turn."""
    try:
        return _serve(spec, line)
    except BaseException as error:
        return failure_from(error)


def _serve(spec: WorkerSpec, line: Line) -> Record | None:
    task, workload = spec.task, spec.workload
    if isinstance(task, Probe):
        return Probed(facts=probe_torch())
    assert isinstance(workload, TrainingFunction)  # only a probe has none, and a script is served elsewhere
    # Only there: it sees whatever the user's code does that Python audits, and would slow down what is measured.
    imports = Imports() if isinstance(task, Describe) else None
    if spec.placement is not None:
        join_others(spec.placement, str(spec.settings.get("parallel.backend", "gloo")))
    build = load_build(workload)
    if imports is not None:
        training = build_training(build, workload, seed=0)
        facts, modules = describe(training), imports.since()
        found = read_user_code(training)
        facts = msgspec.structs.replace(
            facts,
            found=found.settings,
            own_autocast=found.autocast,
            shapes_change=found.shapes_change,
            loading_bound=facts.loading_bound or found.why_bound,
        )
        return Described(facts=facts, modules=modules)
    if isinstance(task, Train):
        return train(task, partial(_start_loop, spec, build))
    if isinstance(task, Measure):
        return _measure(spec, task, _start_loop(spec, build, task.seed), line)
    return look_into(spec, _start_loop(spec, build, seed=0), line)


def look_into(spec: WorkerSpec, paced: Paced, line: Line) -> Record:
    """Do a task for which steps alone do not suffice; return its answer, or the Failure that it met."""
    task = spec.task
    if not isinstance(paced, Inspectable):
        return not_inspectable("a profile" if isinstance(task, TakeProfile) else "a comparison of single updates")
    if isinstance(task, TakeProfile):
        return _look(paced, task, spec.warmup_seconds, line)
    if isinstance(task, RecordUpdates):
        return record_updates(paced, Path(task.folder), task.points, task.batches)
    assert isinstance(task, CompareUpdates)  # all others have been answered
    compared = compare_updates(paced, Path(task.folder))
    return did_nothing(paced) or compared


def _measure(spec: WorkerSpec, task: Measure, loop: Loop, line: Line) -> Failure | None:
    """Make the steps that the tuner asks for; return the Failure if they cannot be measured, else None."""
    pacer = Pacer(loop, task, spec.warmup_seconds, line)
    if pacer.built():
        while pacer.step_ended(loop.step()):
            pass
    return pacer.failure


def _look(loop: Inspectable, task: TakeProfile, warmup_seconds: float, line: Line) -> Record:
    """Warm up and look at the training; tell each result as soon as it is found."""
    warmed = make_steps(warming_up(loop, min(warmup_seconds, PROFILE_WARMUP_SECONDS)), loop.step)
    if failure := did_nothing(loop):
        return failure
    return take_and_gather(loop, task, warmed.step_seconds[-1], line.write)


def _start_loop(spec: WorkerSpec, build: Callable[[], Any], seed: int, resumed: Progress | None = None) -> Loop:
    assert isinstance(spec.workload, TrainingFunction)  # else there were nothing to build
    training = build_training(build, spec.workload, seed)
    return Loop(training, Applied(spec.settings, device_of(training), spec.found), seed, resumed)
