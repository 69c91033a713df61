"""Words for the evidence called rounding."""

from __future__ import annotations

from autoaccel.records.rounding import RoundingEvidence
from autoaccel.units import two_digits


def rounding_words(evidence: RoundingEvidence) -> str:
    """Return what updates have shown, for people who have never heard of gradient noise."""
    if evidence.verdict != "holds":
        verdict = {"open": "undecided by rounding", "too large": "more than rounding"}[evidence.verdict]
        return f"{verdict}: {evidence.reason}"
    difference = two_digits(100 * evidence.relative_error)
    return f"its updates differ from yours by {difference} % of the difference between two of your own batches"


def rounding_basis_words(evidence: RoundingEvidence) -> str:
    """Return how many comparisons, batches and steps the evidence has."""
    return (
        f"{evidence.points} comparisons on {evidence.batches} batches from the same weights, during "
        f"{evidence.steps} steps trained both ways"
    )
