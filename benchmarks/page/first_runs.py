"""First runs of trainings that were tuned while they ran."""

from __future__ import annotations

import math
from typing import Any


def first_runs(found: dict[str, Any]) -> list[str]:
    """Return how many times as fast first runs were as in plain Python, everything included."""
    columns = ["Training", "Run, against plain", "Steps at its end", "Saved, of what was possible", "Faster from"]
    columns += ["What it says of itself", "Settings"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for name, row in found.items():
        low, high = row["first_run_interval"]
        saved = "" if row["saved_share"] is None else f"{row['saved_share']:.2f}"
        since = "" if row["first_in_use_seconds"] is None else f"{row['first_in_use_seconds']:.0f} s"
        claim = "" if row["claim"] is None else "{:.2f} ({:.2f} to {:.2f})".format(*row["claim"])
        lines.append(
            f"| {name} | {row['first_run']:.2f}x ({low:.2f} to {high:.2f}) | {row['at_its_end']:.2f}x | {saved} "
            f"| {since} | {claim} | {row['settings']} |"
        )
    mean = math.exp(math.fsum(math.log(row["first_run"]) for row in found.values()) / max(1, len(found)))
    return [*lines, "", f"Geometric mean of {len(found)}: {mean:.2f}x."]
