"""What the page says of recipes whose metrics are hard to judge."""

from __future__ import annotations

from typing import Any


def evidence(found: dict[str, Any]) -> list[str]:
    """Return what each recipe is worth beside settings that were fixed beforehand, and what undecided runs took."""
    lines = [
        "| Training | Tuned in | Undecided runs | Recipe: run | Best fixed: run | Of the best |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in found.items():
        recipe = row["picks"]["recipe"]
        others = {who: one["run"] for who, one in row["picks"].items() if who not in ("recipe", "own") and "run" in one}
        best = max(others, key=others.__getitem__, default="")
        seconds = f"{row['wall_seconds']:.0f} s | {row['undecided_seconds']:.0f} s"
        changes = recipe["settings"] if row["exit_code"] == 0 else "own settings"
        of_best = f"{others[best]:.2f}x: {best}" if best else ""
        run = f"{recipe['run']:.2f}x: {changes}" if "run" in recipe else changes
        lines.append(f"| {name} | {seconds} | {run} | {of_best} | {row['over_best']:.2f} |")
    return lines
