"""Request: what a person asks of a tuning run."""

from __future__ import annotations

import msgspec

from autoaccel.records.base import Record
from autoaccel.records.options import DEFAULT_TRAININGS, EvidenceWish, TuneOptions
from autoaccel.records.recipe import Constraint
from autoaccel.records.workload import Workload

MIN_BUDGET_SECONDS = 10.0


class Request(Record, frozen=True):
    """What a person asks of a tuning run: the training and the options, of which two are worked out."""

    workload: Workload
    budget_seconds: float  # ceiling for the whole run
    constraint: Constraint
    options: TuneOptions = TuneOptions()

    @property
    def may_alter(self) -> bool:
        """Whether the person has said how much worse the metric may get: the model itself may be altered."""
        return self.options.max_drop is not None


class RequestOfSchema3(Record, frozen=True):
    """A request as a run folder of schema autoaccel/run/3 has it."""

    workload: Workload
    budget_seconds: float
    constraint: Constraint
    max_trials: int | None = msgspec.field(default=None, name="most_trials")
    metric_repeats: int = 3
    space: str = "default"
    fixed: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    seed: int = 0
    runs: int = DEFAULT_TRAININGS
    evidence: EvidenceWish = "any"
    max_drop_said: bool = False

    def upgraded(self) -> Request:
        """Return it as a request of today."""
        drop = self.constraint
        shown = f"{drop.max_drop * 100:g}%" if drop.relative else f"{drop.max_drop:g}"
        options = TuneOptions(
            budget=self.budget_seconds,
            trials=self.max_trials,
            max_drop=shown if self.max_drop_said else None,
            metric_repeats=self.metric_repeats,
            evidence=self.evidence,
            space=self.space,
            fixed=self.fixed,
            excluded=self.excluded,
            seed=self.seed,
            trainings=self.runs,
        )
        return Request(self.workload, self.budget_seconds, self.constraint, options)
