"""What the page says of tunes with less than the default budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoaccel.units import format_duration
from benchmarks.page.unseen import changes_of, evidence_of, is_proven, recipe_after_seconds

_TOO_SMALL = 2  # the exit code of a tune whose budget is, as of any bad request


def budgets(found: Mapping[str, Any]) -> list[str]:
    """Return what came of each try, how many of each training were proven, and how soon too small a budget was told."""
    lines = ["| Training, budget | Try | `autoaccel tune` | Evidence | Recipe after | Ended after |", f"|{'---|' * 6}"]
    proven: dict[str, list[bool]] = {}
    refused: dict[str, list[float]] = {}  # seconds until a budget that would do was named
    for name in sorted(found, key=_parts):
        (case, _, which), row = _parts(name), found[name]
        proven.setdefault(case, []).append(is_proven({"autoaccel": row}))
        if row["exit_code"] == _TOO_SMALL:
            refused.setdefault(case, []).append(row["wall_seconds"])
        said, evidence, after = row["said"], "", ""
        if proven[case][-1]:
            one = row["comparison"]
            said = f"{one['speedup']:.2f}x ({one['low']:.2f} to {one['high']:.2f}): {changes_of(row['choice'])}"
            evidence, after = evidence_of(row["accuracy"]), format_duration(recipe_after_seconds(row))
        lines.append(f"| {case} | {which} | {said} | {evidence} | {after} | {format_duration(row['wall_seconds'])} |")
    told = [f"{case}: {sum(each)} of {len(each)}" for case, each in proven.items()]
    too_small = [
        f"Tries of {case} that were refused with the budget that would do: {len(each)} of {len(proven[case])}, "
        f"after at most {format_duration(max(each))}."
        for case, each in refused.items()
    ]
    return [*lines, "", " ".join([f"Tries that ended with a proven recipe: {', '.join(told)}.", *too_small])]


def _parts(name: str) -> tuple[str, int, str]:
    """Return a row's case, its try's number, and the try's whole name, which holds the date if it is an earlier one."""
    case, _, which = name.partition(": ")
    return case, int(which.partition(",")[0]), which
