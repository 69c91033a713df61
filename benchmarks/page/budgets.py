"""What the page says of tunes with less than the default budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoaccel.units import format_duration
from benchmarks.page.unseen import changes_of, evidence_of, is_proven, recipe_after_seconds


def budgets(found: Mapping[str, Any]) -> list[str]:
    """Return what came of each try, and how many of each training ended with a proven recipe."""
    lines = ["| Training, budget | Try | `autoaccel tune` | Evidence | Recipe after | Ended after |", f"|{'---|' * 6}"]
    proven: dict[str, list[bool]] = {}
    for name in sorted(found, key=_parts):
        (case, _, which), row = _parts(name), found[name]
        proven.setdefault(case, []).append(is_proven({"autoaccel": row}))
        said, evidence, after = row["said"], "", ""
        if proven[case][-1]:
            one = row["comparison"]
            said = f"{one['speedup']:.2f}x ({one['low']:.2f} to {one['high']:.2f}): {changes_of(row['choice'])}"
            evidence, after = evidence_of(row["accuracy"]), format_duration(recipe_after_seconds(row))
        lines.append(f"| {case} | {which} | {said} | {evidence} | {after} | {format_duration(row['wall_seconds'])} |")
    told = [f"{case}: {sum(each)} of {len(each)}" for case, each in proven.items()]
    return [*lines, "", f"Tries that ended with a proven recipe: {', '.join(told)}."]


def _parts(name: str) -> tuple[str, int, str]:
    """Return a row's case, its try's number, and the try's whole name, which holds the date if it is an earlier one."""
    case, _, which = name.partition(": ")
    return case, int(which.partition(",")[0]), which
