"""What a run decides, and why, before anybody puts it into words."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.contender import ProofResult
from autoaccel.records.evidence import MetricPlan
from autoaccel.records.messages import Failure
from autoaccel.records.recipe import Constraint, OpenProof
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings, Value, format_value
from autoaccel.records.trial import Comparison

Part: TypeAlias = tuple[tuple[str, Value | None], ...]
"""Changed settings, each with its value; None: any other than the user's own."""


def part_words(part: Part) -> str:
    """Return a part as people read it: `loader.workers=2 with compile.mode=default`, `any other loader.workers`."""
    return " with ".join(
        f"any other {name}" if value is None else f"{name}={format_value(value)}" for name, value in part
    )


class CommonCause(NamedTuple):
    """What failed settings have in common, and no other: it is not tried again."""

    part: Part
    failures: int  # different settings
    message: str  # of the last failure

    @property
    def words(self) -> str:
        """Why it is not tried again, as people read it."""
        return f"{self.failures} failed trials contain it, and no trial that worked does: {self.message}"


LostBecause = Literal[
    "untried", "closed", "failed", "failed in its proof", "not compared", "metric may drop", "slower", "not faster",
    "more than rounding", "not proven", "slow start", "slower than the recipe", "no better than the recipe",
]  # fmt: skip
"""Why a value that could have been chosen is not in the recipe."""


class Lost(NamedTuple):
    """A value of the search space that the recipe does not have."""

    knob: str
    value: Value
    trials: int  # that had it
    speedup: float | None  # of the best of them; None if none could be compared
    because: LostBecause
    message: str = ""  # of the failure, where one is why
    cause: CommonCause | None = None  # where failures have closed it


class NoTime(NamedTuple):
    """What would show whether the metric is kept does not fit in what is left of the budget."""

    plan: MetricPlan


class RunsMissing(NamedTuple):
    """The metric scatters too much from seed to seed for the runs that were made to tell."""

    baseline_deviation: float  # of the metric under the user's own settings
    constraint: Constraint
    runs: int  # pairs that would do, were the settings harmless
    pair_seconds: float


Obstacle: TypeAlias = (
    Literal["budget spent", "pairs disturbed", "speed settles", "pairs undecided"]
    | Failure
    | RoundingEvidence
    | NoTime
    | RunsMissing
    | None
)
"""What a proof met that did not end with settings proven; None where its numbers say it all."""


class Refused(NamedTuple):
    """Settings whose proof failed."""

    settings: Settings
    result: ProofResult
    comparison: Comparison | None
    accuracy: Accuracy | None
    obstacle: Obstacle
    trials: int  # that the search had made


class NothingToWin(NamedTuple):
    """Steps take too little of a run to matter."""

    planned_steps: int
    overhead_seconds: float  # of a run, beside its steps
    total_seconds: float


class NothingBetter(NamedTuple):
    """No trial has shown anything that shortens the run."""

    trials: int
    infeasible: int  # that may drop the metric
    failed: int


class NotWorthProving(NamedTuple):
    """The best would save less time than its proof takes."""

    saving_seconds: float  # on all trainings
    trainings: int


class NotWorthTrying(NamedTuple):
    """All trainings together are too short for what is tried to repay its time."""

    total_seconds: float  # of one training
    trainings: int


class TooSmall(NamedTuple):
    """The best is faster by less than a proof can show on this machine."""

    speedup: float  # of its steps
    least: float  # that a trial must show, for a proof to come to its end in half of all cases


class TooDisturbed(NamedTuple):
    """The machine was too busy with something else."""

    share: float  # of the turns that were disturbed


KeptBecause: TypeAlias = (
    Refused | NothingToWin | NothingBetter | NotWorthTrying | NotWorthProving | TooSmall | TooDisturbed
)
"""Why the user's own settings stay."""


class LeftOpen(NamedTuple):
    """A proof that a larger budget may complete."""

    proof: OpenProof
    speedup: float  # of the settings' steps, as the search has it
    by: MetricPlan | None  # what would show whether the metric is kept; None if nothing need be shown
    whole_seconds: float | None  # the budget with which planned runs would; None if that is not worth telling


class Unprovable(NamedTuple):
    """Nothing that fits in the budget could show that a change keeps the metric."""

    plan: MetricPlan  # the least that would
    seconds: float  # that it takes
    budget_minutes: int  # that leave time for it


class ProofElsewhere(NamedTuple):
    """Another worker of a study proves the best, or has."""

    study: str
    host: str
    has_ended: bool
