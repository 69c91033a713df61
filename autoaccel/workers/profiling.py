"""Ask a worker for a profile, and keep the part of it that it finds before it fails."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from autoaccel.records.machine import Machine
from autoaccel.records.messages import MAX_PROFILE_SECONDS, Failure, Profiled, TakeProfile
from autoaccel.records.settings import Settings
from autoaccel.workers.measuring import failure_of
from autoaccel.workers.starter import WorkerStarter


def profile_task(
    machine: Machine,
    seconds: float,
    trace_path: Path | None = None,
    board_path: Path | None = None,
    max_seconds: float = MAX_PROFILE_SECONDS,
) -> TakeProfile:
    """Return the task of the worker that takes a profile on this machine; see TakeProfile."""
    return TakeProfile(
        seconds=seconds,
        thorough=True,
        cores=machine.usable_cores,
        cache_bytes=max((cache.size_bytes for cache in machine.cpu.caches), default=0),
        trace_path=str(trace_path.absolute()) if trace_path else None,
        board_path=str(board_path.absolute()) if board_path else None,
        max_seconds=max_seconds,
    )


def ask_profile(
    starter: WorkerStarter, task: TakeProfile, settings: Settings, timeout_seconds: float
) -> Profiled | Failure:
    """Return what was found until the worker ended, failed or ran out of time; the Failure if it found nothing.

    Args:
        starter: Starts the worker.
        task: What to look at.
        settings: The settings to train under.
        timeout_seconds: For everything.
    """
    deadline = time.perf_counter() + timeout_seconds
    so_far: Profiled | None = None
    worker = starter.start(task, settings, "profile")
    try:
        answer = worker.receive(timeout_seconds)
        while isinstance(answer, Profiled):
            if not answer.measuring:
                return answer
            so_far = answer
            answer = worker.receive(deadline - time.perf_counter())
    finally:
        worker.close()
    failure = failure_of(answer)
    return failure if so_far is None else _without_the_rest(so_far, failure)


def _without_the_rest(found: Profiled, failure: Failure) -> Profiled:
    """Return what was found before the process failed, and what it failed at."""
    failed = {**found.profile.failed, found.measuring: failure.message}
    return msgspec.structs.replace(found, profile=msgspec.structs.replace(found.profile, failed=failed), measuring="")
