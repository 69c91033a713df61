"""Sleep and stops are noticed, and what spans one is measured once more."""

from __future__ import annotations

import collections
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoaccel.machine.interruptions import Moment, moment, watch_stops
from autoaccel.records.messages import Failure, GiveTurn, Measure, Ready, Turn
from autoaccel.workers.measuring import Measuring, Readiness, repeated_if_interrupted
from autoaccel.workers.worker import Worker


@pytest.fixture(autouse=True)
def stops_watched() -> Iterator[None]:
    before = signal.getsignal(signal.SIGCONT)
    watch_stops()
    yield
    signal.signal(signal.SIGCONT, before)


def continue_this() -> None:
    os.kill(os.getpid(), signal.SIGCONT)


def test_a_stop_is_seen_once_this_process_goes_on() -> None:
    before = moment()
    assert not before.interrupted_until(moment())
    continue_this()
    assert before.interrupted_until(moment())


@pytest.mark.parametrize(("asleep", "slept"), [(100.0, False), (100.01, False), (103.0, True)])
def test_sleep_is_what_two_clocks_differ_by(asleep: float, slept: bool) -> None:
    assert Moment(100.0, 0).interrupted_until(Moment(asleep, 0)) is slept


class Stopped(Worker):
    """Answers with turns; while it makes the first of them, this process is stopped and goes on."""

    def __init__(self) -> None:
        self.asked = 0

    def tell(self, message: object) -> None:
        self.asked += 1

    def receive(self, timeout_seconds: float) -> Turn:
        if self.asked == 1:
            continue_this()
        return Turn((0.1 * self.asked,))

    def pause(self) -> None: ...

    def resume(self) -> None: ...


def test_a_turn_that_spans_a_stop_is_taken_once_more() -> None:
    worker = Stopped()
    readiness = Readiness(Ready((0.1,), 0.1, 0, 0), 1.0, 0.0, 1.0, 0.1)
    measuring = Measuring(worker, {}, readiness, collections.defaultdict(float))
    assert measuring.take_turn(GiveTurn(0.1), 10.0) == Turn((0.2,))
    assert measuring.turns == [Turn((0.2,))]
    assert measuring.take_turn(GiveTurn(0.1), 10.0) == Turn((0.1 * 3,)) and worker.asked == 3


def test_what_starts_while_this_process_is_stopped_is_started_once_more(tmp_path: Path) -> None:
    started: list[Measure] = []

    @repeated_if_interrupted
    def start(task: Measure) -> list[Measuring | Failure]:
        started.append(task)
        if len(started) == 1:
            continue_this()
        return [Failure("hung", f"start {len(started)}")]

    assert start(Measure()) == [Failure("hung", "start 2")]
