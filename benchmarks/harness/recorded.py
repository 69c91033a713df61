"""A whole tune on a table: all that a run decides, on readings that were taken before, by a clock that is not real."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from autoaccel.advise.bounds import OTHERS_SPEEDUP
from autoaccel.bench.bench import FreshPair, Reference
from autoaccel.bench.rounding import UPDATE_STEPS
from autoaccel.records.advice import Diagnosis
from autoaccel.records.messages import Failure
from autoaccel.records.options import TuneOptions
from autoaccel.records.progress import Listener, ignore
from autoaccel.records.proof import TrainedPair
from autoaccel.records.recipe import Constraint, Recipe
from autoaccel.records.request import Request
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings, settings_key
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import BuildFunction, TrainingFacts
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.search.instruments import QuickLook, Reading
from autoaccel.search.study import study_in_memory
from autoaccel.session.concluding import conclude
from autoaccel.session.planning import Planner
from autoaccel.session.proof_loop import search_and_prove
from autoaccel.session.setup import Setup
from autoaccel.space.narrow import narrow
from autoaccel.statistics.comparison import NOISE_THRESHOLD, drift_on
from autoaccel.statistics.turn_plan import TurnPlan, pair_seconds, pair_turns, trial_seconds, turns_worth
from autoaccel.units import parse_duration
from benchmarks.harness.replay import Facts, Replay, Side, SimulatedClock, as_measuring

if TYPE_CHECKING:
    from autoaccel.workers.starter import WorkerStarter

MIN_SPEEDUP = 1 + NOISE_THRESHOLD / OTHERS_SPEEDUP  # that a knob must promise, as in `autoaccel tune`
_METRIC, _SCATTER = 0.9, 0.002  # of every training: no table knows of a metric


@dataclass
class RecordedPairs:
    """Pairs of processes whose turns are those of a table's visits: each pays for two starts and all its turns."""

    facts: Facts
    replay: Replay
    clock: SimulatedClock
    random: random.Random
    against: Settings | None = None  # what others are measured against; None: the user's own settings

    def __post_init__(self) -> None:
        """Begin with no pair measured."""
        self._taker = self.facts.turn_taker()

    def compare(self, settings: Settings, how: FreshPair) -> Reading | Failure:
        """Return what a pair shows; the budget may be spent before. With steps, both come to nearly the same metric."""
        if self.clock.left <= 0:
            return Failure(kind="hung", message="the budget was spent")
        facts, visit = self.facts, self.replay.draw(settings)
        outcome = self.replay.start(visit)
        if isinstance(outcome, Failure):
            return outcome
        self.clock.spent += facts.ready_seconds
        reference = visit.baseline_turns
        if self.against is not None:
            other_side = self.replay.draw(self.against).outcome
            assert isinstance(other_side, Measurement)  # what was proven
            reference = other_side.turns
        most = pair_turns(facts.plan, 2 * facts.ready_seconds, self._taker.scatter.deviation)
        count = min(len(outcome.turns), len(reference))
        order = [*self.random.sample(range(count), count), *self.random.choices(range(count), k=most)]
        sides = [Side([turns[index] for index in order], self.clock) for turns in (reference, outcome.turns)]
        reading = self._taker.take(as_measuring(sides[0]), as_measuring(sides[1]), lambda pairs: len(pairs) >= most)
        assert isinstance(reading, Reading)
        if how.steps is None:
            return reading
        self.clock.spent += 2 * how.steps * facts.baseline_step_seconds
        own, others = (_METRIC + self.random.gauss(0, _SCATTER) for _ in range(2))
        return reading._replace(trained=TrainedPair((own, others)))


class RecordedBench:
    """The bench of a run whose readings were taken before; what updates say of what only rounds is that it holds."""

    def __init__(self, facts: Facts, training: TrainingFacts, clock: SimulatedClock, seed: int) -> None:
        """Measure the user's own settings, as the table has it.

        Args:
            facts: Of the table.
            training: Of the training, whose planned steps may be others than those of the table's.
            clock: Pays.
            seed: Of what is drawn.
        """
        self._table = facts
        self._clock = clock
        self._random = random.Random(seed)
        self._replay = Replay(facts, clock, self._random)
        self._pairs: dict[str, RecordedPairs] = {}  # by what they are measured against
        self._compared: set[int] = set()
        self.settings: Settings = facts.table.head.baseline_settings
        self.facts = training
        self.measurement = facts.table.head.baseline
        self.plan: TurnPlan = facts.plan
        self.step_seconds = facts.baseline_step_seconds
        self.ready_seconds = facts.ready_seconds
        self.overhead_seconds = self.measurement.overhead_seconds
        self.total_seconds = self.overhead_seconds + training.planned_steps * self.step_seconds
        self.disturbed_share = 0.0
        self.spent_on: Mapping[str, float] = {}

    @property
    def compared_steps(self) -> frozenset[int]:
        """After how many steps the user's own updates were made."""
        return frozenset(self._compared)

    def trial_seconds(self, speedup: float = 1.0) -> float:
        """Return about what a trial takes that compiles nothing."""
        turns = turns_worth(self.plan, self.ready_seconds, self.plan.usual_deviation, speedup)
        return trial_seconds(self.plan, self.ready_seconds, turns, speedup)

    def pair_seconds(self, speedup: float = 1.0, against: Reference | None = None) -> float:
        """Return about what a pair takes."""
        faster = speedup if against is None else speedup * self.step_seconds / against.step_seconds
        turns = pair_turns(self.plan, 2 * self.ready_seconds, self.plan.usual_deviation, faster)
        return pair_seconds(self.plan, self.ready_seconds, turns, faster)

    def compare(self, settings: Settings, how: QuickLook | FreshPair) -> Reading | Failure:
        """Return what a trial of the table has shown, or a pair of its visits."""
        if isinstance(how, QuickLook):
            return self._replay.compare(settings, how)
        against = how.against.settings if how.against else None
        key = settings_key(against or {})
        if key not in self._pairs:
            self._pairs[key] = RecordedPairs(self._table, self._replay, self._clock, self._random, against)
        return self._pairs[key].compare(settings, how)

    def compare_updates(self, settings: Settings, has_time: Callable[[int], bool]) -> RoundingEvidence | Failure:
        """Return that settings only round, after the time that it takes to tell."""
        made = 1 if self._compared else 2
        self._compared.add(UPDATE_STEPS)
        self._clock.spent += made * (self.ready_seconds + UPDATE_STEPS * self.step_seconds)
        return RoundingEvidence("holds", "", 64, 3, 8, error_share=0.001)


def tune_recorded(facts: Facts, folder: Path, epochs: int, options: TuneOptions, tell: Listener = ignore) -> Recipe:
    """Return the recipe of a whole tune on a table: planned, searched, proven, explained, concluded.

    Args:
        facts: Of the table.
        folder: Empty; for what a run writes.
        epochs: Of a training.
        options: Of the tune; its budget in seconds.
        tell: Told what happens.
    """
    setup = prepare_recorded(facts, folder, epochs, options, tell)
    result = search_and_prove(setup)
    assert result is not None  # no other worker takes part
    return conclude(setup, result)


def prepare_recorded(facts: Facts, folder: Path, epochs: int, options: TuneOptions, tell: Listener = ignore) -> Setup:
    """Return what a tune on a table knows when its search begins; see `tune_recorded`.

    Raises:
        BudgetSpentError: If the budget does not suffice for a trial and a proof.
    """
    head = facts.table.head
    training = msgspec.structs.replace(head.facts, epochs=epochs)
    budget_seconds = parse_duration(str(options.budget))
    clock = SimulatedClock(budget_seconds)
    clock.spent = head.prepare_seconds
    request = Request(BuildFunction("table.py", "build", ""), budget_seconds, Constraint(0.01, True), options)
    run = TuningRun(
        request,
        RunFolder(folder),
        cast("WorkerStarter", None),  # nothing is started
        clock,
        tell,
        drift=drift_on(head.machine),
    )
    clock.spent += facts.ready_seconds + sum(sum(turn.step_seconds) for turn in head.baseline.turns)
    bench = RecordedBench(facts, training, clock, options.seed)
    space = narrow(head.space, bench.settings, facts.findings, MIN_SPEEDUP)
    Planner(run, facts.context, space).anew(bench)
    clock.spent += head.profile_seconds
    diagnosis = Diagnosis(facts.findings, head.profile)
    return Setup(run, head.machine, bench, space, study_in_memory(), diagnosis, facts.context.demand)
