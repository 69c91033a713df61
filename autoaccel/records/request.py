"""Request: what a person asks of a tuning run."""

from __future__ import annotations

from typing import Literal

from autoaccel.records.base import Record
from autoaccel.records.recipe import Constraint
from autoaccel.records.workload import Workload

DEFAULT_BUDGET_SECONDS = 600.0
DEFAULT_MAX_DROP = "1%"
DEFAULT_METRIC_REPEATS = 3
DEFAULT_RUNS = 20
DEFAULT_SPACE = "default"
LEAST_BUDGET_SECONDS = 10.0

EvidenceWish = Literal["any", "whole"]
"""What must show that settings keep the metric: what fits, the strongest first; or whole planned runs."""


class Request(Record, frozen=True):
    """What a person asks of a tuning run."""

    workload: Workload
    budget_seconds: float  # ceiling for the whole run
    constraint: Constraint
    most_trials: int | None = None  # None: as many as the budget allows
    metric_repeats: int = DEFAULT_METRIC_REPEATS  # paired training runs per settings, at least 2
    space: str = DEFAULT_SPACE  # name of a search space, or path of one
    fixed: tuple[str, ...] = ()  # knob=value, as typed
    excluded: tuple[str, ...] = ()
    seed: int = 0
    runs: int = DEFAULT_RUNS  # how often the training will be run with the recipe: what a saved second counts
    evidence: EvidenceWish = "any"
    max_drop_said: bool = False  # the person has said how much worse the metric may get: the model may be altered
