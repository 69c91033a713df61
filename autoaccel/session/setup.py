"""Setup: all that a run knows when its search begins. SearchResult: what the search and the proof have found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autoaccel.bench.bench import Bench
from autoaccel.records.advice import Diagnosis
from autoaccel.records.conclusion import NotWorthTrying
from autoaccel.records.machine import Machine
from autoaccel.records.messages import ModelSize
from autoaccel.records.profile import Demand, Finding
from autoaccel.records.recipe import StopReason
from autoaccel.records.run import RUN_SCHEMA, RunRecord
from autoaccel.records.settings import Settings, changed
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement, Trial
from autoaccel.records.workload import TrainingFacts
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.session.best import Best
from autoaccel.session.limits import HOPED_SPEEDUP, MIN_RUN_SPEEDUP
from autoaccel.space.knobs import KnobContext
from autoaccel.statistics.deciding import MIN_PAIRS

if TYPE_CHECKING:
    from autoaccel.search.study import SearchStudy


def can_win(overhead_seconds: float, total_seconds: float) -> bool:
    """Return whether steps take enough of a run for anything to be won.

    Args:
        overhead_seconds: What a run takes beside its settled steps.
        total_seconds: Of the whole planned run.
    """
    return total_seconds >= MIN_RUN_SPEEDUP * overhead_seconds


@dataclass(frozen=True)
class Setup:
    """What a run has found out, measured and decided before its search begins."""

    run: TuningRun
    machine: Machine
    baseline: Bench  # the user's own settings, measured, and alive beside the trials
    space: SearchSpace  # without what cannot win
    study: SearchStudy | None = None  # None: no other worker takes part
    diagnosis: Diagnosis | None = None  # None: no profile was taken
    demand: Demand | None = None  # what a process needs; None where that is not known
    remembered: Settings = field(default_factory=dict)  # see `RunRecord`

    @property
    def facts(self) -> TrainingFacts:
        """What build() returns, as data."""
        return self.baseline.facts

    @property
    def baseline_settings(self) -> Settings:
        """The user's own settings."""
        return self.baseline.settings

    @property
    def context(self) -> KnobContext:
        """Where the training runs, and what it needs."""
        return KnobContext(self.machine, self.facts, self.demand)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the profile says."""
        return self.diagnosis.findings if self.diagnosis else ()

    @property
    def can_win(self) -> bool:
        """Whether steps take enough of a run for anything to be won."""
        return can_win(self.baseline.overhead_seconds, self.baseline.total_seconds)

    @property
    def may_pay(self) -> bool:
        """Whether a search could repay its time over all trainings, were its first trial to find a large speed-up.

        What a person has set is tried in any case.
        """
        if changed(self.space.fixed, self.baseline_settings):
            return True
        baseline, trainings = self.baseline, self.run.request.options.trainings
        steps_seconds = self.facts.planned_steps * baseline.step_seconds
        saved = trainings * steps_seconds * (1 - 1 / HOPED_SPEEDUP)
        costs = baseline.trial_seconds(HOPED_SPEEDUP) + MIN_PAIRS * baseline.pair_seconds(HOPED_SPEEDUP)
        return saved > costs

    @property
    def not_worth_trying(self) -> NotWorthTrying:
        """That all trainings together are too short for anything that is tried to repay its time."""
        return NotWorthTrying(self.baseline.total_seconds, self.run.request.options.trainings)

    @property
    def record(self) -> RunRecord:
        """What a later part of the run starts from."""
        return RunRecord(
            schema=RUN_SCHEMA,
            request=self.run.request,
            machine=self.machine,
            facts=self.facts,
            baseline_settings=self.baseline_settings,
            baseline=self.baseline.measurement,
            diagnosis=self.diagnosis,
            space=self.space,
            demand=self.demand,
            remembered=self.remembered,
        )


@dataclass(frozen=True)
class SearchResult:
    """What the search and the proof have found."""

    trials: tuple[Trial, ...]
    best: Best
    stop: StopReason

    @property
    def model_size(self) -> ModelSize | None:
        """What the best settings make of the model's size, as their last trial told."""
        measured = [trial.outcome for trial in self.trials if trial.settings == self.best.settings]
        return next((found.model_size for found in reversed(measured) if isinstance(found, Measurement)), None)
