"""What the page says of trainings by well-known packages, before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def packages(found: Mapping[str, Any]) -> list[str]:
    """Return, for each package, what is true of its script, what a tune believes, and whether that is right."""
    columns = ("Package", "Model, optimizer", "Fed by", "Batches a step", "Updates", "Believed", "Right")
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for name, row in found.items():
        true, seen = row["expected"], row["found"]
        version = row["versions"][name]
        cells = (
            f"{name} {version}",
            ", ".join((*true["models"], *true["optimizers"])),
            true["loader"] or "no loader of torch's",
            str(true["batches"]),
            f"{true['planned']:,}: {true['why']}",
            believed(seen),
            "yes" if not row["wrong"] else f"**no**: {'; '.join(row['wrong'])}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def believed(seen: Mapping[str, Any]) -> str:
    """Return the planned length as a tune tells it."""
    if "failed" in seen:
        return "nothing"
    if seen["planned"] is None:
        return f"{seen['assumed']:,}, assumed"
    return f"{seen['planned']:,}: {seen['planned from']}"
