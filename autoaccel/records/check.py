"""AccuracyCheck: what whole planned runs say of a recipe's metric, made after it was written."""

from __future__ import annotations

from typing import Literal

from autoaccel.records.base import Record
from autoaccel.records.recipe import Constraint
from autoaccel.records.trial import Accuracy, ClaimVerdict, TrainedPair

CHECK_SCHEMA: Literal["autoaccel/accuracy/1"] = "autoaccel/accuracy/1"


class CheckedPair(Record, frozen=True):
    """One line of recipe.accuracy.jsonl: two whole planned runs from the same seed."""

    of: str  # which recipe and file were trained
    seed: int
    trained: TrainedPair
    seconds: float  # that the two took


class AccuracyCheck(Record, frozen=True):
    """What is in recipe.accuracy.json: whether a recipe keeps the metric, by whole planned runs."""

    schema: Literal["autoaccel/accuracy/1"]
    verdict: ClaimVerdict
    constraint: Constraint
    accuracy: Accuracy | None  # None with fewer than three pairs
    pair_seconds: float | None  # that a pair takes; None if there is none
    pairs_needed: int | None  # in all, to show that settings which scatter like these are harmless; None: unknown
    message: str = ""  # how a training with the recipe failed
