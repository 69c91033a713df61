"""KnownBench: a machine on which the speed and the metric of all settings are known, and measuring moves a clock."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from autoaccel.bench.bench import FreshPair, Reference
from autoaccel.records.advice import Diagnosis
from autoaccel.records.contender import OPEN, ContenderResult
from autoaccel.records.machine import Machine
from autoaccel.records.messages import Failure, Turn
from autoaccel.records.options import TuneOptions
from autoaccel.records.profile import Finding, Profile
from autoaccel.records.progress import Event, StageStarted, TrialStarted
from autoaccel.records.proof import TrainedPair
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import Request
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings, changed
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import BuildFunction, TrainingFacts
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.search.instruments import QuickLook, Reading
from autoaccel.session.planning import Planner
from autoaccel.session.proof_loop import search_and_prove
from autoaccel.session.remembering import remembered
from autoaccel.session.setup import SearchResult, Setup
from autoaccel.space.knobs import KnobContext
from autoaccel.statistics.turn_plan import TurnPlan, plan_turns
from benchmarks.harness.replay import SimulatedClock
from tests.samples import FACTS, reading_of

if TYPE_CHECKING:
    from autoaccel.workers.starter import WorkerStarter

BASELINE: Settings = {
    "precision.autocast": "off",
    "loader.workers": 0,
    "parallel.world_size": 1,
    "threads.intra_op": 4,
    "memory.allocator": "system",
    "memory.keep_freed": False,
}
CAST: Settings = {"precision.autocast": "bfloat16"}
WORKERS: Settings = {"loader.workers": 2}
RANKS: Settings = {"parallel.world_size": 2}
SPACE = SearchSpace(
    name="test",
    open={"precision.autocast": ("off", "bfloat16"), "loader.workers": (0, 2), "parallel.world_size": (1, 2)},
    fixed={"threads.intra_op": 4, "memory.allocator": "system", "memory.keep_freed": False},
    closed={},
)
STEP_SECONDS, STARTUP_SECONDS = 0.04, 1.0
TRIAL_SECONDS, PAIR_SECONDS, UPDATES_SECONDS = 3.0, 4.0, 5.0
PLANNED_STEPS = 300
FINDINGS = tuple(
    Finding(code, code, 0.45, 1.8, knobs)
    for code, knobs in {"data-wait": ("loader.workers",), "compute": ("precision.autocast", *RANKS)}.items()
)
"""The first guess has loader workers and bfloat16."""


@dataclass
class KnownBench:
    """What settings do, by `knob=value`: the log speed-up of each; together they add up."""

    logs: dict[str, float]
    flattered: dict[str, float] = field(default_factory=dict)  # what trials show beyond that, each of them
    not_faster: tuple[Settings, ...] = ()  # what was fast in its trials by luck
    lucky_pairs: int | None = None  # how many of a proof's first pairs show a speed-up that is none; None: it is one
    misread: dict[str, float] = field(default_factory=dict)  # what contributions show beyond a setting's own speed-up
    drops: Settings = field(default_factory=dict)  # what drops the metric by a tenth
    diverges: Settings = field(default_factory=dict)  # what makes the loss no number, but only after its trial
    scatter: float = 0.001  # of the metric from seed to seed; a hundredth is allowed
    system: float = 0.0  # share of a step that the system takes, all of which kept memory spares it
    eval_samples: int | None = None  # that the metric is the mean of: few of them let expect a large scatter
    updates: RoundingEvidence | None = None  # what they say of settings that only round; None if nobody asks
    explaining_seconds: float = PAIR_SECONDS  # that a pair of a contribution takes; infinite: none is measured
    budget_seconds: float = 600.0
    spent_seconds: float = 0.0  # of these before the search

    def __post_init__(self) -> None:
        """Measure the user's own settings."""
        self.clock = SimulatedClock(self.budget_seconds)
        self.clock.spent = self.spent_seconds
        self.random = random.Random(0)
        self.settings: Settings = BASELINE
        epochs = PLANNED_STEPS // FACTS.steps_per_epoch
        self.facts: TrainingFacts = msgspec.structs.replace(FACTS, epochs=epochs, eval_samples=self.eval_samples)
        self.measurement = Measurement(STARTUP_SECONDS, (STEP_SECONDS,) * 2, (self.turn(),) * 6)
        self.plan: TurnPlan = plan_turns(STEP_SECONDS)
        self.step_seconds = STEP_SECONDS
        self.ready_seconds = STARTUP_SECONDS
        self.overhead_seconds = STARTUP_SECONDS
        self.total_seconds = STARTUP_SECONDS + PLANNED_STEPS * STEP_SECONDS
        self.disturbed_share = 0.0
        self.spent_on: Mapping[str, float] = {}
        self.compared_steps: frozenset[int] = frozenset()

    def turn(self) -> Turn:
        """Return one under the user's own settings."""
        return Turn((STEP_SECONDS,), system_seconds=self.system * STEP_SECONDS)

    def log_of(self, settings: Settings, in_trial: bool = False) -> float:
        """Return the log speed-up of settings, or what a trial shows of it on average."""
        names = [f"{name}={value}" for name, value in changed(settings, BASELINE).items()]
        return sum(self.logs.get(name, 0.0) + in_trial * self.flattered.get(name, 0.0) for name in names)

    def turns(self, log_speedup: float) -> list[tuple[float, float]]:
        """Return turns of two processes, with their luck and noise."""
        luck = log_speedup + self.random.gauss(0, 0.01)
        return [(STEP_SECONDS, STEP_SECONDS * math.exp(-luck - self.random.gauss(0, 0.02))) for _ in range(8)]

    def trial_seconds(self, speedup: float = 1.0) -> float:
        """Return what a trial takes."""
        return TRIAL_SECONDS

    def pair_seconds(self, speedup: float = 1.0, against: Reference | None = None) -> float:
        """Return what a pair takes."""
        return PAIR_SECONDS if against is None else self.explaining_seconds

    def compare(self, settings: Settings, how: QuickLook | FreshPair) -> Reading | Failure:
        """Return what a trial or a pair shows."""
        if isinstance(how, QuickLook):
            self.clock.spent += TRIAL_SECONDS
            pairs = self.turns(self.log_of(settings, in_trial=True))
            turns = tuple(Turn((other,)) for _, other in pairs)
            return Reading(Measurement(STARTUP_SECONDS, (STEP_SECONDS,), turns), turns, pairs, trusted=True)
        return self.proves(settings, how) if how.against is None else self.explains(settings, how, how.against)

    def proves(self, settings: Settings, how: FreshPair) -> Reading | Failure:
        """Return what a pair of the user's own settings and others shows."""
        if self.clock.left <= 0:
            return Failure("hung", "no answer")
        is_luck = self.lucky_pairs is not None and how.seed >= self.lucky_pairs
        log_speedup = 0.0 if is_luck or changed(settings, BASELINE) in self.not_faster else self.log_of(settings)
        self.clock.spent += PAIR_SECONDS + (how.steps or 0) * STEP_SECONDS * (1 + math.exp(-log_speedup))
        if self.diverges and self.diverges.items() <= settings.items():
            return Failure("diverged", "its loss is no longer a finite number")
        drop = 0.1 if self.drops and self.drops.items() <= settings.items() else 0.0
        # The same settings, the same metric.
        seed_of = random.Random(f"{how.seed} {sorted(changed(settings, BASELINE))}")
        metrics = (0.9, 0.9 - drop - seed_of.gauss(0, self.scatter))
        shares = self.system, 0.0 if settings["memory.keep_freed"] else self.system
        return reading_of(self.turns(log_speedup), True, TrainedPair(metrics) if how.steps else None, shares)

    def explains(self, settings: Settings, how: FreshPair, against: Reference) -> Reading:
        """Return what a pair of a recipe and the same without a setting shows: right on average, within a tenth."""
        self.clock.spent += self.explaining_seconds
        log_speedup = self.log_of(settings) - self.log_of(against.settings) + (0.0, 0.1, -0.1)[how.seed % 3]
        left_out = changed(against.settings, settings)
        log_speedup -= sum(self.misread.get(f"{name}={value}", 0.0) for name, value in left_out.items())
        return reading_of([(STEP_SECONDS, STEP_SECONDS * math.exp(-log_speedup))] * 8)

    def compare_updates(self, settings: Settings, has_time: Callable[[int], bool]) -> RoundingEvidence | Failure:
        """Return what updates say."""
        assert self.updates is not None
        self.clock.spent += UPDATES_SECONDS
        return self.updates


@dataclass(frozen=True)
class Tuned:
    """What a run came to, and what it told and wrote on its way."""

    result: SearchResult
    proofs: list[ContenderResult]
    events: list[Event]
    kept: list[Settings]  # in a recipe, before the run has ended: what differs from the user's own

    @property
    def found(self) -> Settings | None:
        """What differs from the user's own in what was proven; None if nothing was."""
        best = self.result.best
        return changed(best.settings, BASELINE) if best.kept_because is None else None

    @property
    def tried(self) -> list[Settings]:
        """What differs from the user's own in each trial."""
        return [changed(trial.settings, BASELINE) for trial in self.result.trials]

    @property
    def refused(self) -> list[Settings]:
        """What was to be proven in vain."""
        found = [one for one in self.proofs if one.result not in ("proven", "incomplete")]
        return [changed(one.settings, BASELINE) for one in found]

    @property
    def open(self) -> list[tuple[Settings, str]]:
        """What more time may prove, and how its proof ended."""
        return [(changed(one.settings, BASELINE), one.result) for one in self.proofs if one.result in OPEN]

    @property
    def left_open(self) -> Settings | None:
        """What a resumed run would prove first."""
        left = self.result.best.left_open
        return changed(left.proof.settings, BASELINE) if left else None

    @property
    def searches(self) -> list[str]:
        """With which words each search has begun."""
        return [event.detail for event in self.events if isinstance(event, StageStarted) and event.stage == "search"]

    def continued_with(self, words: str) -> Settings:
        """Return what was tried first after a search had begun with these words."""
        starts = [isinstance(event, StageStarted) and event.detail.startswith(words) for event in self.events]
        after = self.events[starts.index(True) :]
        return changed(next(event.settings for event in after if isinstance(event, TrialStarted)), BASELINE)


def tune(
    bench: KnownBench,
    folder: Path,
    machine: Machine,
    space: SearchSpace = SPACE,
    trainings: int = 1000,
    search_seconds: float | None = None,
    trials: int | None = None,
    with_history: bool = False,
    drift: float = 0.0,
) -> Tuned:
    """Return what a run comes to: planned, searched and proven on this bench.

    Args:
        bench: Measures.
        folder: Of the run.
        machine: On which experts guess first.
        space: That is searched.
        trainings: How often the training is run.
        search_seconds: That the search may spend until something is proven; None: what the plan says.
        trials: That the run makes at most; None: as many as pay.
        with_history: Whether it begins with what is remembered of the training.
        drift: Of log speed-ups from hour to hour, on such a machine.
    """
    events: list[Event] = []
    kept: list[Settings] = []

    def watch(event: Event) -> None:
        events.append(event)
        settings = changed(run.folder.load_recipe().settings, BASELINE) if run.folder.recipe.exists() else None
        if settings and settings not in kept[-1:]:
            kept.append(settings)

    options = TuneOptions(trainings=trainings, trials=trials, evidence="any" if bench.updates else "whole")
    workload = BuildFunction("model.py", "build", "")
    request = Request(workload, bench.budget_seconds, Constraint(0.01, False), options)
    run = TuningRun(request, RunFolder(folder), cast("WorkerStarter", None), bench.clock, watch, drift=drift)
    Planner(run, KnobContext(machine, bench.facts), space).anew(bench)
    plan = run.stages.current
    assert plan is not None
    if search_seconds is not None:
        run.stages.follow(replace(plan, seconds={**plan.seconds, "profile": 0.0, "search": search_seconds}))
    profile = Profile(STEP_SECONDS, None, {}, (), {}, 0, 0, 0)
    setup = Setup(run, machine, bench, space, diagnosis=Diagnosis(FINDINGS, profile))
    if with_history:
        setup = replace(setup, remembered=remembered(setup))
    result = search_and_prove(setup)
    assert result is not None  # no other worker takes part
    return Tuned(result, run.folder.load_contenders(), events, kept)
