"""Pairs of processes: what proves settings, and what they contribute."""

from __future__ import annotations

from autoaccel.records.base import Record
from autoaccel.records.bounds import Count, Number
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Measurement


class TrainedPair(Record, frozen=True):
    """What two trainings from the same seed came to: the baseline's number, then the recipe's."""

    metrics: tuple[Number, Number]
    losses: tuple[Number, Number] | None = None  # of the training, mean over the last quarter of its steps
    first_loss: Number | None = None  # the baseline's, of its first step
    sample_error: Number | None = None  # standard error that the metrics' difference has from its samples alone


class ProofPair(Record, frozen=True):
    """One line of proof.jsonl: a fresh pair of processes, with all raw times.

    In contributions.jsonl the settings are the recipe's without one, and what stands as the baseline is the recipe.
    """

    settings: Settings
    seed: int
    baseline: Measurement
    recipe: Measurement
    trained: TrainedPair | None  # if they trained to the end
    steps: Count | None = None  # of the training's own that each made, if they did
