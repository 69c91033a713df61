"""Say what costs the time of a training and what would help."""

from __future__ import annotations

import tempfile
from pathlib import Path

from autoaccel.advise.demand import demand_of
from autoaccel.advise.findings import advise
from autoaccel.advise.roofline import roofline
from autoaccel.launch.profiling import ask_profile
from autoaccel.launch.runner import Runner
from autoaccel.machine.quiet import read_load
from autoaccel.machine.surroundings import begin_watching, read_surroundings
from autoaccel.machine.throttling import watch_throttling
from autoaccel.records.advice import Advice, Diagnosis
from autoaccel.records.circumstances import Surroundings
from autoaccel.records.machine import Machine
from autoaccel.records.rates import RateLimits
from autoaccel.records.settings import Settings
from autoaccel.records.trial import MOST_PROFILE_SECONDS, Failure, Profiled, TakeProfile
from autoaccel.records.workload import TrainingFacts, Workload
from autoaccel.session.workers import probe_and_describe, workload_error
from autoaccel.space.knobs import Place

START_SECONDS = 600.0  # for a build() outside any budget
_PROFILE_SECONDS = 2.0


def profile_task(
    machine: Machine,
    seconds: float,
    thorough: bool = False,
    trace_path: Path | None = None,
    board_path: Path | None = None,
    most_seconds: float = MOST_PROFILE_SECONDS,
) -> TakeProfile:
    """Return what to ask of the worker that takes a profile on this machine; see TakeProfile."""
    return TakeProfile(
        seconds=seconds,
        thorough=thorough,
        cores=machine.usable_cores,
        cache_bytes=max((cache.size_bytes for cache in machine.cpu.caches), default=0),
        trace_path=str(trace_path.absolute()) if trace_path else None,
        board_path=str(board_path.absolute()) if board_path else None,
        most_seconds=most_seconds,
    )


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
    watch = begin_watching(read_load())  # before anything of ours keeps the computer busy
    with tempfile.TemporaryDirectory(prefix="autoaccel-") as folder, Runner(Path(folder), workload) as runner:
        machine, facts = probe_and_describe(runner, workload, START_SECONDS)
        runner.enter(Place(machine, facts))
        # Only what the user has declared: what brings every other knob's default to bear is no work of the user's.
        own: Settings = dict(facts.settings)
        task = profile_task(machine, _PROFILE_SECONDS, True, trace_path, board_path)
        with watch_throttling() as throttling:
            answer = ask_profile(runner, task, own, START_SECONDS)
    if isinstance(answer, Failure):
        raise workload_error(answer, workload, "while it was profiled")
    surroundings = read_surroundings(watch, gpu_throttling=throttling)
    diagnosis = diagnose(answer, machine, facts, surroundings)
    return Advice(
        findings=diagnosis.findings,
        profile=diagnosis.profile,
        machine=machine,
        limits=diagnosis.limits,
        circumstances=answer.circumstances,
        surroundings=surroundings,
    )


def diagnose(profiled: Profiled, machine: Machine, facts: TrainingFacts, surroundings: Surroundings) -> Diagnosis:
    """Return what a profile says of a training that runs here."""
    profile, circumstances, rates = profiled.profile, profiled.circumstances, profiled.rates
    return Diagnosis(
        findings=tuple(advise(profile, machine, circumstances, rates, facts, surroundings)),
        profile=profile,
        limits=RateLimits(rates, roofline(profile, machine, rates, circumstances)) if rates else None,
        demand=demand_of(profile, circumstances, facts),
    )
