"""Pacer: the protocol between the tuner and a training that is measured, whoever makes the training's steps.

    if pacer.built():
        while pacer.step_ended(loop.step()):
            pass

It only has to be told of each step, so a hook deep inside other code can call it as well.
"""

from __future__ import annotations

from typing import Protocol

from autoaccel.records.base import Record, decode
from autoaccel.records.messages import Built, Failure, Finished, GiveTurn, Measure, Order, Ready, Turn
from autoaccel.runtime.ineffective import failure_of, no_longer_works
from autoaccel.runtime.last_part import LastPart
from autoaccel.runtime.paced import Judged, Paced, not_inspectable
from autoaccel.runtime.steps import Step, Stretch, advance
from autoaccel.runtime.turns import taking_turn
from autoaccel.runtime.warmup import WarmedUp, warming_up


class Line(Protocol):
    """The way to the tuner: orders come in, answers go out."""

    def read(self) -> bytes: ...

    def write(self, message: Record) -> None: ...


class Pacer:
    """Answers the orders of a Measure task with the steps that it is told of, and says when no more are wanted.

    Its methods return once the tuner wants another step: between turns that takes as long as the tuner likes.
    """

    def __init__(self, paced: Paced, task: Measure, warmup_seconds: float, line: Line) -> None:
        """Begin; nothing is read or written yet.

        Args:
            paced: The training, which has made no step.
            task: How it is measured.
            warmup_seconds: A step time that has not settled by then is measured as it is.
            line: The way to the tuner.
        """
        self.failure: Failure | None = None
        """The failure that ended the measurement before its first turn, which the process is to answer with."""
        self._paced = paced
        self._line = line
        self._measurement = self._measuring(task, warmup_seconds)

    def built(self) -> bool:
        """Say that the training is built; return whether to make its first step, once it is this process's turn."""
        return self._proceed(None)

    def step_ended(self, step: Step) -> bool:
        """Take in a step, which an accelerator may not have ended; return whether to make another one.

        Before a step that is timed by the clock, take its first mark after this has returned.

        Raises:
            BaseException: Whatever the user's own code raises that computes the metric.
        """
        return self._proceed(step)

    def _proceed(self, step: Step | None) -> bool:
        try:
            advance(self._measurement, step)
        except StopIteration as end:
            self.failure = end.value or self.failure
            return False
        return True

    def _measuring(self, task: Measure, warmup_seconds: float) -> Stretch[Failure | None]:
        """Warm up when it is this process's turn, then answer each order; return why it cannot be measured, if so."""
        paced, line, steps = self._paced, self._line, None
        last: LastPart | None = None
        if task.steps is not None:
            if not isinstance(paced, Judged):
                return not_inspectable("the metric after a training")
            steps = paced.own_steps(task.steps)
        line.write(Built())
        if not line.read():  # WarmUp; nothing if the tuner is gone
            return None
        warmed = yield from warming_up(paced, warmup_seconds, steps, task.settling_steps)
        learned, ineffective = paced.applied.check()
        if failure := failure_of(paced, ineffective, "did nothing"):
            return failure
        line.write(_ready(paced, warmed, learned, ineffective))
        if isinstance(paced, Judged) and steps is not None:
            last = LastPart(paced, steps)
        while text := line.read():
            order: Order = decode(text, Order)  # type: ignore[arg-type]  # to mypy a union is no class
            answer: Turn | Finished | Failure
            if isinstance(order, GiveTurn):
                answer = yield from taking_turn(paced, order, last.starts_at if last else None)
            else:
                assert last is not None  # only a training that ends is asked to finish
                answer = yield from finishing(paced, last, warmed.settled_seconds)
            line.write(answer)
        return None


def finishing(paced: Paced, last: LastPart, step_seconds: float) -> Stretch[Finished | Failure]:
    """Take the remaining steps and evaluate; return a Failure if a setting no longer has its effect after them."""
    before = paced.steps_done
    found = yield from last.training(step_seconds)
    if isinstance(found, Failure) or paced.steps_done == before:
        return found
    return no_longer_works(paced) or found


def _ready(paced: Paced, warmed: WarmedUp, learned: dict[str, str], ineffective: dict[str, str]) -> Ready:
    return Ready(
        warmup_step_seconds=tuple(warmed.step_seconds),
        settled_seconds=warmed.settled_seconds,
        settling_steps=warmed.settling_steps,
        surplus_steps=warmed.surplus_steps,
        learned=learned,
        stated_in_vain=ineffective,
        batch_factor=paced.batch_factor,
        late_seconds=warmed.late_seconds,
        model_size=paced.model_size,
    )
