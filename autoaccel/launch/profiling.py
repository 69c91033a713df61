"""Ask a worker for a profile, of which a part is worth having."""

from __future__ import annotations

import time

import msgspec

from autoaccel.launch.measuring import failure_of
from autoaccel.launch.runner import Runner
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Failure, Profiled, TakeProfile


def ask_profile(
    runner: Runner, task: TakeProfile, settings: Settings, timeout_seconds: float, name: str = "profile"
) -> Profiled | Failure:
    """Return what was found until the worker was done, failed or time was up; the Failure if that is nothing.

    Args:
        runner: Starts the worker.
        task: What it is to look at.
        settings: Under which.
        timeout_seconds: For all.
        name: Of its log.
    """
    deadline = time.perf_counter() + timeout_seconds
    so_far: Profiled | None = None
    worker = runner.start(task, settings, name)
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
