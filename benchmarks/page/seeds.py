"""How a metric's drop scatters from seed to seed."""

from __future__ import annotations

import statistics
from typing import Any

import msgspec

from autoaccel.records.proof import TrainedPair
from autoaccel.records.recipe import Constraint
from autoaccel.statistics.accuracy import metric_drops

METRIC_UNITS = Constraint(0.0, relative=False)
"""Drops are told in units of the metric; none is judged."""


def seeds(found: dict[str, Any]) -> list[str]:
    """Return how pairs of trainings from the same seeds differ, beside what their evaluation samples let expect."""
    lines = ["| Training, change, length | Pairs | Mean drop | Its deviation | By the samples |", f"|{'---|' * 5}"]
    for name, row in found.items():
        if "pairs" not in row:  # what updates say: for replays of proofs
            continue
        pairs = msgspec.convert(row["pairs"], list[TrainedPair])
        drops = metric_drops(row["facts"]["direction"], pairs, METRIC_UNITS)
        errors = [pair.sample_error for pair in pairs if pair.sample_error is not None]
        expected = f"{statistics.fmean(error**2 for error in errors) ** 0.5:.2g}" if errors else "not told"
        scatter = statistics.stdev(drops)
        lines.append(f"| {name} | {len(drops)} | {statistics.fmean(drops):.2g} | {scatter:.2g} | {expected} |")
    return lines
