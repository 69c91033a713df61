"""LookWait: how long the first look at a training may take, which depends on whether it has made a step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from autoaccel.records.messages import Answer, StepMade
from autoaccel.workers.group import WorkerGroup
from autoaccel.workers.listening import await_news
from autoaccel.workers.worker import Worker

_READ_SECONDS = 0.5


@dataclass
class LookWait:
    """Waits for what a worker has to tell of a training.

    Nobody knows how long a training takes to its first step. Once it has made one, the next are known to follow.
    """

    seconds: float  # for all
    further_seconds: float  # after the first step of a script
    late_seconds: float  # after which, without a first step,
    tell_late: Callable[[float], None]  # this is told how many they were
    first_step_seconds: float | None = None  # since the process was started; None: a script has made none
    waited_seconds: float = 0.0  # since then, or since it was started

    def receive(self, worker: Worker | WorkerGroup) -> Answer:
        """Return what the worker answers, or the Failure that came instead."""
        since, deadline = worker.started_at, worker.started_at + self.seconds
        late_at = since + self.late_seconds
        if late_at < deadline and not await_news([worker], late_at - time.perf_counter()):
            self.tell_late(time.perf_counter() - since)
        answer = worker.receive(_until(deadline))
        if isinstance(answer, StepMade):
            since = answer.at
            self.first_step_seconds = since - worker.started_at
            answer = worker.receive(_until(min(since + self.further_seconds, deadline)))
        self.waited_seconds = time.perf_counter() - since
        return answer


def _until(deadline: float) -> float:
    """Return the seconds until then; enough of them to read what has come while something else was waited for."""
    return max(_READ_SECONDS, deadline - time.perf_counter())
