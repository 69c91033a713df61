"""Accuracy: what is known of the metric under settings, and what shows it."""

from __future__ import annotations

from typing import Literal

import msgspec

from autoaccel.records.base import Record
from autoaccel.records.bounds import Count, NotNegative, Number
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.workload import Direction

MetricEvidence = Literal["exact", "redrawn", "whole", "share", "rounding"]
"""What shows that settings keep the metric, the strongest first: nothing that differs changes a number; nothing but
which random numbers samples are drawn with, as another seed does; whole planned runs from the same seeds; as much of
these runs as fits; rounding errors beside the noise of gradients."""


class Accuracy(Record, frozen=True):
    """The metric with and without the settings, from the same seeds on the same data order; None: nothing trained."""

    metric: str
    direction: Direction
    baseline: Number | None  # mean over seeds
    recipe: Number | None
    drop: Number | None  # mean; how much worse, in the constraint's unit; below zero: better
    drop_high: Number | None  # one-sided upper confidence bound
    repeats: Count
    share: NotNegative  # of the planned run that was trained
    baseline_runs: tuple[Number, ...]
    recipe_runs: tuple[Number, ...]
    evidence: MetricEvidence = "whole"
    loss_rise: Number | None = None  # of a share: which part of its fall the training's loss stays behind, on average
    loss_rise_high: Number | None = None  # one-sided upper confidence bound
    rounding: RoundingEvidence | None = None  # what decides where the evidence is called so; the runs, if any, did not
    redrawn: tuple[str, ...] = ()
    """Settings that only change which random numbers samples are drawn with, which neither runs nor updates judged."""

    def __post_init__(self) -> None:
        """Call runs what they are: recipes from before the evidence was written down tell it by their share."""
        if self.evidence == "whole" and self.share < 1:
            msgspec.structs.force_setattr(self, "evidence", "share")


def exact_numbers(metric: str, direction: Direction) -> Accuracy:
    """Return what is known of the metric under settings that change no number: it does not drop."""
    return Accuracy(metric, direction, None, None, 0.0, 0.0, 0, 0.0, (), (), "exact")


def redrawn_numbers(metric: str, direction: Direction, names: tuple[str, ...]) -> Accuracy:
    """Return what is known of the metric under settings that only change with which random numbers samples are drawn.

    It scatters as it does from seed to seed, and does not drop on average.

    Args:
        metric: Its name.
        direction: Whether more is better.
        names: Of these settings.
    """
    return Accuracy(metric, direction, None, None, 0.0, 0.0, 0, 0.0, (), (), "redrawn", redrawn=names)
