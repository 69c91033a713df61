"""Where the time of a step goes: phases from untraced steps, operators from a few traced ones."""

from __future__ import annotations

import cProfile
import resource
import statistics
import time
from typing import NamedTuple

import msgspec
import psutil
import torch
from torch import nn

from autoaccel.records.profile import Profile, PythonFunction
from autoaccel.runtime.accelerator import peak_bytes
from autoaccel.runtime.calls import calls_in, can_record_calls, functions_of
from autoaccel.runtime.paced import Inspectable, Phased
from autoaccel.runtime.phases import timed_phases, typical_phases
from autoaccel.runtime.ranks import agreed
from autoaccel.runtime.spending import Spending
from autoaccel.runtime.steps import Step, Stretch, make_steps
from autoaccel.runtime.tracing import tracing
from autoaccel.runtime.work import count_work, min_bytes

_MIN_STEPS = 3  # untraced, unless they take too large a part of the time that there is
_MAX_SHARE = 1 / 3
_MAX_CALL_STEPS = 20
_MAX_CALL_SECONDS = 1.0


class _Usage(NamedTuple):
    """What this process and its loader workers have used so far."""

    when: float
    cpu_seconds: float
    system_seconds: float
    minor_faults: int
    major_faults: int
    worker_cpu_seconds: dict[int, float]


def _usage() -> _Usage:
    own = resource.getrusage(resource.RUSAGE_SELF)
    workers = {}
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue
        workers[child.pid] = times.user + times.system
    spent = own.ru_utime + own.ru_stime
    return _Usage(time.perf_counter(), spent, own.ru_stime, own.ru_minflt, own.ru_majflt, workers)


class _Untraced(NamedTuple):
    """Steps made without a profiler, and the usage before and after them."""

    steps: list[Step]
    step_phases: list[dict[str, float]]  # seconds
    samples: int  # of all steps
    before: _Usage
    after: _Usage


def take_profile(
    loop: Inspectable, seconds: float, trace_path: str | None = None, spending: Spending | None = None
) -> tuple[Profile, list[Step]]:
    """Return the profile of a loop that has warmed up, and the untraced steps that it rests on; see `profiling`."""
    return make_steps(profiling(loop, loop.plain_model, seconds, trace_path, spending), loop.step)


def profiling(
    phased: Phased,
    model: nn.Module,
    seconds: float,
    trace_path: str | None = None,
    spending: Spending | None = None,
) -> Stretch[tuple[Profile, list[Step]]]:
    """Take steps; return the profile of the training, and the untraced steps that it rests on.

    Args:
        phased: It has warmed up.
        model: That it trains.
        seconds: About how long untraced steps are made.
        trace_path: Where a trace for Perfetto goes; None for nowhere.
        spending: Steps that may be made; None for any number.
    """
    untraced = yield from _untraced_steps(phased, seconds, spending or Spending())
    steps, before, after = untraced.steps, untraced.before, untraced.after
    step_seconds = statistics.median(step.seconds for step in steps)
    typical = typical_phases(untraced.step_phases, bool(getattr(phased.loader, "num_workers", 0)))
    trace = yield from tracing(phased, step_seconds, trace_path)
    _set_all_reduce_apart(typical, trace.all_reduce_seconds)
    whole = sum(typical.values())
    profile = Profile(
        step_seconds=step_seconds,
        samples_per_second=untraced.samples / len(steps) / step_seconds if untraced.samples else None,
        phases={phase: spent / whole for phase, spent in typical.items()},
        operators=trace.operators,
        groups=trace.groups,
        peak_bytes=peak_bytes(phased.device),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        steps=len(steps),
        phase_seconds=whole,
        traced_step_seconds=trace.step_seconds,
        operator_calls_per_step=trace.calls_per_step,
        operator_seconds=trace.operator_seconds,
        large_operator_seconds=trace.large_operator_seconds,
        operator_names=trace.names,
        reads_per_step=trace.reads_per_step,
        cpu_seconds=(after.cpu_seconds - before.cpu_seconds) / len(steps),
        system_seconds=(after.system_seconds - before.system_seconds) / len(steps),
        worker_cpus=_worker_cpus(before, after),
        minor_faults_per_step=(after.minor_faults - before.minor_faults) / len(steps),
        major_faults_per_step=(after.major_faults - before.major_faults) / len(steps),
        epoch_start_seconds=_epoch_start_seconds(steps),
        memory=trace.memory,
        gpu=trace.gpu,
    )
    return profile, steps


def _untraced_steps(phased: Phased, seconds: float, spending: Spending) -> Stretch[_Untraced]:
    min_steps = int(min(_MIN_STEPS, max(1, _MAX_SHARE * spending.affordable_steps)))
    steps: list[Step] = []
    samples_before, before = phased.samples_done, _usage()
    with timed_phases(phased) as timer:
        while agreed(time.perf_counter() - before.when < seconds or len(steps) < min_steps):
            timer.start_step()
            steps.append((yield))
    after = _usage()
    return _Untraced(steps, timer.step_phases, phased.samples_done - samples_before, before, after)


def _set_all_reduce_apart(phases: dict[str, float], seconds: float) -> None:
    """Take from the backward pass what agreeing on gradients could lengthen it by at most; alone there is none."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        phases["all-reduce"] = min(seconds, phases["backward"])  # it runs beside that pass
        phases["backward"] -= phases["all-reduce"]
    else:
        del phases["all-reduce"]


def _worker_cpus(before: _Usage, after: _Usage) -> float | None:
    """Return how many CPUs' time loader workers used; None without any that lived all along."""
    lasting = after.worker_cpu_seconds.keys() & before.worker_cpu_seconds.keys()
    if not lasting:
        return None
    spent = sum(after.worker_cpu_seconds[pid] - before.worker_cpu_seconds[pid] for pid in lasting)
    return max(0.0, spent / (after.when - before.when))


def _epoch_start_seconds(steps: list[Step]) -> float | None:
    """Return what the first step of an epoch takes beyond the others; None if none was made."""
    first = [step.seconds for step in steps if step.begins_epoch]
    others = [step.seconds for step in steps if not step.begins_epoch]
    return max(0.0, statistics.median(first) - statistics.median(others)) if first and others else None


def users_functions(loop: Inspectable, step_seconds: float) -> tuple[PythonFunction, ...]:
    """Return what the user's own functions take in a step, the most expensive lines first; it makes some."""
    return make_steps(recording_functions(loop, step_seconds), loop.step)


def recording_functions(phased: Phased, step_seconds: float) -> Stretch[tuple[PythonFunction, ...]]:
    """Take some steps; return what the user's own functions take in one, the most expensive lines first."""
    steps = min(_MAX_CALL_STEPS, max(1, int(_MAX_CALL_SECONDS / step_seconds)))
    seconds: list[float] = []

    def ended(phase: str) -> None:
        if phase == "data wait":  # what loads samples is looked at for itself
            recorder.enable()

    if not can_record_calls():
        return ()
    recorder = cProfile.Profile()
    previous, phased.phase_ended = phased.phase_ended, ended
    try:
        for _ in range(steps):
            seconds.append((yield).seconds)
            recorder.disable()
    finally:
        recorder.disable()
        phased.phase_ended = previous
    # Not the sum of these steps: one stall would make everything else look cheap.
    return functions_of(calls_in(recorder), steps, steps * statistics.median(seconds))


def with_work(profile: Profile, loop: Inspectable) -> Profile:
    """Return the profile with its floating-point operations and the bytes that it moves."""
    batch = loop.next_batch()
    try:
        flops, moved_bytes = count_work(loop, batch)
    except (RuntimeError, TypeError, AttributeError, NotImplementedError):
        flops, moved_bytes = {}, None  # an operator of the user's own that knows nothing of dispatch modes
    return msgspec.structs.replace(
        profile,
        flops=flops,
        moved_bytes=moved_bytes,
        min_bytes=min_bytes(loop, batch),
    )
