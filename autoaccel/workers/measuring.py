"""Measuring: a worker that takes turns."""

from __future__ import annotations

import collections
import functools
import time
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeAlias

from autoaccel.machine.interruptions import moment
from autoaccel.records.base import Record
from autoaccel.records.messages import Failure, Finish, Finished, GiveTurn, Ready, Turn
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Measurement
from autoaccel.workers.group import WorkerGroup
from autoaccel.workers.worker import Worker

Arguments = ParamSpec("Arguments")

_MAX_TAKEN = 5  # times a turn is taken; who is stopped as often is not to be measured

SpentOn: TypeAlias = "collections.defaultdict[str, float]"
"""Seconds by what they were spent on."""


def repeated_if_interrupted(
    start: Callable[Arguments, list[Measuring | Failure]],
) -> Callable[Arguments, list[Measuring | Failure]]:
    """Return what starts workers, and does so once more if the computer slept meanwhile, or this process was stopped.

    What starting takes is part of what is measured.
    """

    @functools.wraps(start)
    def started(*args: Arguments.args, **kwargs: Arguments.kwargs) -> list[Measuring | Failure]:
        before = moment()
        measuring = start(*args, **kwargs)
        if not before.interrupted_until(moment()):
            return measuring
        for one in measuring:
            if isinstance(one, Measuring):
                one.close()
        return start(*args, **kwargs)

    return started


class Readiness(NamedTuple):
    """How a worker became ready to take turns."""

    ready: Ready  # its answer
    startup_seconds: float  # see Measurement
    lazy_import_seconds: float  # see Measurement
    ready_seconds: float  # from its start until it had warmed up
    warm_step_seconds: float  # step time at the end of the first warm-up under these settings: a first estimate


class Settled(NamedTuple):
    """What the first process under some settings has found out."""

    steps: int  # see Ready.settling_steps
    seconds: float  # see Ready.settled_seconds


class Measuring:
    """A worker that has warmed up and takes turns; it is paused in between."""

    def __init__(
        self, worker: Worker | WorkerGroup, settings: Settings, readiness: Readiness, spent_on: SpentOn
    ) -> None:
        self.settings = settings
        self.turns: list[Turn] = []
        self.finite_steps = 0
        """After so many of its steps its loss was last seen to be finite."""
        self.diverged_steps: int | None = None
        """After so many of them it was first seen not to be; None: it never was."""
        self._worker = worker
        self._ready = readiness.ready
        self._readiness = readiness
        self._spent_on = spent_on
        worker.pause()

    def take_turn(self, order: GiveTurn, timeout_seconds: float) -> Turn | Failure:
        """Let it make the steps of one turn while no other worker runs.

        A turn during which the computer slept, or this process was stopped, is taken once more.
        """
        start = time.perf_counter()
        for _ in range(_MAX_TAKEN):
            before = moment()
            self._worker.resume()
            self._worker.tell(order)
            answer = self._worker.receive(timeout_seconds)
            self._worker.pause()
            if not (isinstance(answer, Turn) and before.interrupted_until(moment())):
                break
        if isinstance(answer, Turn):
            measured = sum(answer.step_seconds)
            self._spent_on["measured steps"] += measured
            self._spent_on["warm-up steps"] += time.perf_counter() - start - measured  # those that do not count
            self.turns.append(answer)
            if not answer.diverged:
                self.finite_steps = answer.steps_done
            elif self.diverged_steps is None:
                self.diverged_steps = answer.steps_done
            return answer
        return failure_of(answer)

    def finish(self, timeout_seconds: float) -> Finished | Failure:
        """Let it train to its end and evaluate while no other worker runs."""
        start = time.perf_counter()
        self._worker.resume()
        self._worker.tell(Finish())
        answer = self._worker.receive(timeout_seconds)
        self._spent_on["training for the metric"] += time.perf_counter() - start
        return answer if isinstance(answer, Finished) else failure_of(answer)

    @property
    def measurement(self) -> Measurement:
        """All that it has measured so far."""
        return Measurement(
            startup_seconds=self._readiness.startup_seconds,
            warmup_step_seconds=self._ready.warmup_step_seconds,
            turns=tuple(self.turns),
            learned=self._ready.learned,
            lazy_import_seconds=self._readiness.lazy_import_seconds,
            batch_factor=self._ready.batch_factor,
            late_seconds=self._ready.late_seconds,
            model_size=self._ready.model_size,
        )

    @property
    def stated_in_vain(self) -> dict[str, str]:
        """Why values that the training itself states did nothing, by knob."""
        return self._ready.stated_in_vain

    @property
    def ready_seconds(self) -> float:
        """Seconds from its start until it had warmed up."""
        return self._readiness.ready_seconds

    @property
    def warm_step_seconds(self) -> float:
        """Step time at the end of the first warm-up under these settings: a first estimate."""
        return self._readiness.warm_step_seconds

    @property
    def batch_factor(self) -> float:
        """Samples of one of its steps, over those of a step of the training's own."""
        return self._ready.batch_factor

    @property
    def ready_again_seconds(self) -> float:
        """Seconds until another process has warmed up under these settings, now that the number of steps is known."""
        steps, surplus = self._ready.warmup_step_seconds, self._ready.surplus_steps
        return self.ready_seconds - sum(steps[len(steps) - surplus :])

    def close(self) -> None:
        """Kill it; what it has measured stays."""
        self._worker.close()


def failure_of(answer: Record) -> Failure:
    """Return the failure that a worker answered with; an unexpected answer is a failure as well."""
    if isinstance(answer, Failure):
        return answer
    name = type(answer).__name__
    return Failure(kind="crashed", message=f"unexpected reply from the process: {name}", signature=name)
