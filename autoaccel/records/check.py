"""What is measured of a recipe after it was written: its claim again, and its metric by whole planned runs."""

from __future__ import annotations

from typing import Literal

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.base import Record
from autoaccel.records.bounds import Count, Seconds
from autoaccel.records.proof import TrainedPair
from autoaccel.records.recipe import Constraint
from autoaccel.records.trial import Comparison

CHECK_SCHEMA: Literal["autoaccel/accuracy/1"] = "autoaccel/accuracy/1"

ClaimVerdict = Literal["holds", "does not hold", "inconclusive"]
"""Of a recipe's claim that was measured again."""


class Verification(Record, frozen=True):
    """A claim, what was measured again, and whether the claim holds."""

    claimed: Comparison
    measured: Comparison | None  # None if the budget did not suffice for two pairs of processes
    verdict: ClaimVerdict


class CheckedPair(Record, frozen=True):
    """One line of recipe.accuracy.jsonl: two whole planned runs from the same seed."""

    of: str  # which recipe and file were trained
    seed: int
    trained: TrainedPair
    seconds: Seconds  # that the two took


class AccuracyCheck(Record, frozen=True):
    """What is in recipe.accuracy.json: whether a recipe keeps the metric, by whole planned runs."""

    schema: Literal["autoaccel/accuracy/1"]
    verdict: ClaimVerdict
    constraint: Constraint
    accuracy: Accuracy | None  # None with fewer than three pairs
    pair_seconds: Seconds | None  # that a pair takes; None if there is none
    pairs_needed: Count | None  # in all, to show that settings which scatter like these are harmless; None: unknown
    message: str = ""  # how a training with the recipe failed
