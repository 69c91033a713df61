"""Processes under the user's own settings that fail beside others: nobody else is blamed, and divergence is told."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from autoaccel.bench.bench import FreshPair
from autoaccel.bench.live_bench import LiveBench
from autoaccel.bench.pairs import FreshPairs
from autoaccel.bench.turns import TurnTaker
from autoaccel.errors import WorkloadFailedError
from autoaccel.proof.metric import MetricProof
from autoaccel.proof.proof import Prover
from autoaccel.records.evidence import MetricPlan
from autoaccel.records.messages import Failure, Finished, GiveTurn
from autoaccel.records.progress import Note, ignore
from autoaccel.records.recipe import Constraint
from autoaccel.records.settings import Settings
from autoaccel.records.workload import BuildFunction, TrainingFacts
from autoaccel.runs.clock import BudgetClock
from autoaccel.search.instruments import Reading
from autoaccel.statistics.deciding import rule_for
from autoaccel.statistics.turn_plan import plan_turns
from tests.bench.test_apart import LOOK, STEP, Computer, Process, run_on
from tests.samples import reading_of

RAISED = Failure("raised", "ValueError: the data has an end")
KILLED = Failure("memory", "the process was killed (SIGKILL)")
DIVERGED = Failure("diverged", "after 100 steps accuracy is nan, the loss nan")


class Breaking(Process):
    """Under the user's own settings it fails in some of its turns, counted over all processes, and diverges."""

    def take_turn(self, order: GiveTurn, timeout_seconds: float) -> Any:
        if not self.settings.get("fast"):
            self.computer.own_turns += 1
            if self.computer.own_turns in self.computer.fails:
                return self.computer.failure
        turn = super().take_turn(order, timeout_seconds)
        steps = len(self.turns)
        if not self.settings.get("fast") and steps > self.computer.finite_turns:
            self.diverged_steps = self.diverged_steps or steps
        else:
            self.finite_steps = steps
        return turn

    def finish(self, timeout_seconds: float) -> Any:
        own_ends = None if self.settings.get("fast") else self.computer.own_end
        return own_ends or Finished(metric=0.9, loss=0.1, first_loss=1.0)


class Unlucky(Computer):
    """Starts such processes."""

    def __init__(self, failure: Failure = RAISED, fails: range = range(0)) -> None:
        super().__init__(0)
        self.failure = failure
        self.fails = fails
        self.own_turns = 0
        self.finite_turns: float = math.inf
        self.own_end: Failure | None = None

    def start_all_measuring(self, task: Any, settings: Any, timeout: float, fresh: bool = False) -> Any:
        found = [Breaking(self, chosen) for chosen in settings.values()]
        self.started.extend(settings)
        self.alive.extend(found)
        return found


def run_with(computer: Computer, notes: list[str] | None = None) -> Any:
    run = run_on(computer)
    run.request.workload = BuildFunction("model.py", "build", "0" * 64)
    run.tell = lambda event: notes.append(event.text) if isinstance(event, Note) and notes is not None else None
    return run


def measured(computer: Unlucky, facts: TrainingFacts, fails: range) -> Reading | Failure:
    baseline = LiveBench(run_with(computer), msgspec.structs.replace(facts, device="cpu"), {"fast": False})
    computer.fails = range(computer.own_turns + fails.start, computer.own_turns + fails.stop)
    return baseline.compare({"fast": True}, LOOK)


@pytest.mark.parametrize("failure", [RAISED, KILLED])
def test_a_baseline_that_fails_once_beside_a_trial_is_started_anew(failure: Failure, facts: TrainingFacts) -> None:
    """Its failure was the trial's: what was tried then was ruled out."""
    computer = Unlucky(failure)
    reading = measured(computer, facts, range(2, 3))
    assert isinstance(reading, Reading)
    assert computer.started == ["baseline", "trial", "trial", "baseline"]


def test_a_baseline_that_fails_again_fails_the_run(facts: TrainingFacts) -> None:
    with pytest.raises(WorkloadFailedError, match=r"model\.py failed under your own settings: ValueError: the data"):
        measured(Unlucky(), facts, range(2, 20))


def test_a_trial_beside_which_the_baseline_finds_no_memory_again_has_failed(facts: TrainingFacts) -> None:
    assert measured(Unlucky(KILLED), facts, range(2, 20)) == KILLED


def test_a_baseline_that_is_measured_apart_is_measured_again_too(facts: TrainingFacts) -> None:
    for fails, ends in ((1, False), (20, True)):
        computer = Unlucky()
        baseline = LiveBench(run_with(computer), msgspec.structs.replace(facts, device="cpu"), {"fast": False})
        baseline.is_apart = True
        computer.fails = range(computer.own_turns + 1, computer.own_turns + 1 + fails)
        if ends:
            with pytest.raises(WorkloadFailedError, match="under your own settings: ValueError"):
                baseline.compare({"fast": True}, LOOK)
        else:
            assert isinstance(baseline.compare({"fast": True}, LOOK), Reading)


@pytest.mark.parametrize(("finite_turns", "is_told"), [(1, True), (10_000, False)])
def test_a_training_that_diverges_by_itself_is_told_once(
    finite_turns: int, is_told: bool, facts: TrainingFacts
) -> None:
    computer, notes = Unlucky(), list[str]()
    computer.finite_turns = finite_turns
    baseline = LiveBench(run_with(computer, notes), msgspec.structs.replace(facts, device="cpu"), {"fast": False})
    for _ in range(2):
        assert isinstance(baseline.compare({"fast": True}, LOOK), Reading)
    told = "under your own settings the loss is no longer a finite number after 2 steps: your training diverges"
    assert [note.startswith(told) for note in notes] == [True] * is_told


def pair_on(computer: Unlucky, steps: int | None = None) -> Reading | Failure:
    pairs = FreshPairs(run_with(computer), {"fast": False}, TurnTaker(plan_turns(STEP), 100, [STEP]))
    return pairs.compare({"fast": True}, FreshPair(0, steps))


def test_a_pair_whose_own_side_fails_is_measured_once_more(facts: TrainingFacts) -> None:
    assert isinstance(pair_on(Unlucky(fails=range(2, 3))), Reading)
    with pytest.raises(WorkloadFailedError, match="under your own settings: ValueError"):
        pair_on(Unlucky(fails=range(2, 20)))
    assert pair_on(Unlucky(KILLED, range(2, 20))) == KILLED


def test_where_the_user_s_own_training_diverges_the_metric_stays_open(facts: TrainingFacts) -> None:
    """The candidate had failed, and all that it changes was not tried again."""
    computer = Unlucky()
    computer.own_end = DIVERGED
    reading = pair_on(computer, steps=100)
    assert isinstance(reading, Reading) and reading.trained is None and reading.own_failure is not None
    assert reading.own_failure.message == f"under your own settings, {DIVERGED.message}"

    class Pairs:
        def compare(self, settings: Settings, how: FreshPair) -> Reading | Failure:
            found = reading_of([(1.0, 0.5)] * 8)
            return found._replace(own_failure=reading.own_failure) if how.steps else found

    plan = MetricPlan("whole", 100, pairs=3, max_pairs=6)
    metric = MetricProof(facts, Constraint(0.01, False), plan, error=0.025)
    proof = Prover(Pairs().compare, facts, BudgetClock(600.0), ignore).prove({"fast": True}, rule_for(1, 1.02), metric)
    assert proof.result == "metric unclear" and proof.failure is None
    assert proof.obstacle == reading.own_failure
