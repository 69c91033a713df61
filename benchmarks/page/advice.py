"""Tables of the results page about advice, and about the report that shows it."""

from __future__ import annotations

import math
import statistics
from typing import Any


def planted(found: dict[str, Any]) -> list[str]:
    """Return how the advice fared with each planted problem."""
    lines = [
        "| Problem | Named | Finding | Bound | Repaired, faster by (least to most of the pairs) | Claims half |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in found.items():
        place = {None: "not at all", 1: "first", 2: "second"}.get(row["place"], f"at place {row['place']}")
        bound = f"{row['bound_speedup']:.2f}x" if row["bound_speedup"] else ""
        gain = f"{row['gain']:.2f}x ({min(row['gains']):.2f} to {max(row['gains']):.2f})" if "gain" in row else ""
        claims = "yes" if row["claims_half"] else "no"
        lines.append(f"| {name} | {place} | {row['title'] or row['code']} | {bound} | {gain} | {claims} |")
    return lines


def examples(found: dict[str, Any]) -> list[str]:
    """Return how long advice took on each example, and whether its phases add up."""
    lines = ["| Example | Longest call | Phases off from the step by | First findings |", "|---|---|---|---|"]
    for name, row in found.items():
        first = ", ".join(f"{code} (at most {bound:.2f}x)" for code, bound in row["calls"][0]["findings"][:3])
        lines.append(f"| {name} | {row['longest_seconds']:.0f} s | {row['median_departure']:.1%} | {first} |")
    return lines


def held(found: dict[str, Any]) -> list[str]:
    """Return each remedy that was measured alone beside the most that advice says of it."""
    lines = ["| Where | Remedy | At most | Won alone | Its lower end | Within |", "|---|---|---|---|---|---|"]
    for name, row in found.items():
        for one in row["remedies"]:
            numbers = " | ".join(f"{one[what]:.2f}x" for what in ("bound", "gain", "gain_low"))
            lines.append(f"| {name} | {one['remedy']} | {numbers} | {'yes' if one['within'] else 'no'} |")
    ratios = [ratio for row in found.values() for ratio in row["bound_over_best"].values()]
    middle = f"{statistics.median(ratios):.2f} times what the best remedy of its kind won ({len(ratios)} kinds)"
    return [*lines, "", f"The median bound is {middle}."]


def remedies(found: dict[str, Any]) -> list[str]:
    """Return what remedies won alone on one machine, and their bounds by its rates."""
    lines = ["| Workload | Remedy | At most, in each profile | Won, in each round |", "|---|---|---|---|"]
    for name, row in found.items():
        for one in row["remedies"]:
            bounds = ", ".join(f"{bound:.2f}x" for bound in one["bounds"])
            gains = ", ".join(f"{math.exp(log):.2f}x" for log in one["logs"])
            lines.append(f"| {name} | {one['change']} | {bounds} | {gains} |")
    return lines


def bounds(found: dict[str, Any]) -> list[str]:
    """Return what searches with and without bounds come to."""
    lines = [
        "| Workload | Steps | Bounds close | Settings left | Best kept | Search | Seconds | Regret | Within 2 % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, horizons in found.items():
        for steps, row in horizons.items():
            closed = ", ".join(row["closed"]) or "nothing"
            left = f"{row['settings_searched']} of {row['settings']}"
            kept = "yes" if row["best_is_searched"] else f"no, {row['best_searched_over_best'] - 1:.1%} longer"
            for variant, result in row["searches"].items():
                reached = result["median_seconds_to_close"]
                close = "seldom" if reached is None else f"{reached:.0f} s"
                lines.append(
                    f"| {name} | {int(steps):,} | {closed} | {left} | {kept} | {variant} "
                    f"| {result['median_seconds']:.0f} | {result['median_regret']:.1%} | {close} |"
                )
    return lines


def report_page(found: dict[str, Any]) -> list[str]:
    """Return what a browser saw of each report."""
    lines = ["| Report | Script errors | Requests | Sideways, worst | Columns that sort | Plots with marks |"]
    lines.append("|---|---|---|---|---|---|")
    for name, page in found["pages"].items():
        plots = f"{sum(plot['marks'] > 0 for plot in page['plots'])} of {len(page['plots'])}"
        columns = f"{sum(page['sorted'].values())} of {len(page['sorted'])}"
        sideways = f"{max(page['sideways_pixels'].values())} px"
        lines.append(f"| {name} | {len(page['errors'])} | {len(page['requests'])} | {sideways} | {columns} | {plots} |")
    return [*lines, "", f"{found['browser']}: at 1280 and at 390 pixels, light and dark, and on A4."]
