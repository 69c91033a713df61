"""How a metric's drop scatters from seed to seed."""

from __future__ import annotations

import statistics
from typing import Any


def seeds(found: dict[str, Any]) -> list[str]:
    """Return how pairs of trainings from the same seeds differ, beside what their evaluation samples let expect."""
    lines = ["| Training, change, length | Pairs | Mean drop | Its deviation | By the samples |", f"|{'---|' * 5}"]
    for name, row in found.items():
        worse = 1 if row["facts"]["direction"] == "maximize" else -1
        drops = [worse * (baseline - other) for baseline, other in (pair["metrics"] for pair in row["pairs"])]
        errors = [pair["sample_error"] for pair in row["pairs"] if pair.get("sample_error") is not None]
        expected = f"{statistics.fmean(error**2 for error in errors) ** 0.5:.2g}" if errors else "not told"
        scatter = statistics.stdev(drops)
        lines.append(f"| {name} | {len(drops)} | {statistics.fmean(drops):.2g} | {scatter:.2g} | {expected} |")
    return lines
