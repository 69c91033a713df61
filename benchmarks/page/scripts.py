"""What the page says of scripts that are tuned as they are."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from autoaccel.units import format_duration
from benchmarks.page.unseen import changes_of, evidence_of, is_proven, recipe_after_seconds


def scripts(found: Mapping[str, Any]) -> list[str]:
    """Return what each script's recipe is worth, beside what can be reached otherwise."""
    columns = ("Script", "Step", "Recipe", "Evidence", "Recipe after", "Measured again", "Otherwise", "Over otherwise")
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for name, row in found.items():
        recipe, evidence, after = row["said"], "", ""
        if is_proven({"autoaccel": row}):
            one = row["comparison"]
            recipe = f"{one['speedup']:.2f}x ({one['low']:.2f} to {one['high']:.2f}): {changes_of(row['choice'])}"
            evidence, after = evidence_of(row["accuracy"]), format_duration(recipe_after_seconds(row))
        otherwise = (
            f"`{' '.join(row['by_hand'])}`" if row["by_hand"] else f"build(): {changes_of(row['build']['choice'])}"
        )
        lines.append(
            f"| {name} | {format_duration(row['own_step_seconds'])} | {recipe} | {evidence} | {after} | "
            f"{_ratio(row['speedups']['recipe'])} | {otherwise}, {_ratio(row['speedups']['otherwise'])} | "
            f"{_ratio(row['of_otherwise'], '')} |"
        )
    return lines


def live_scripts(found: Mapping[str, Any]) -> list[str]:
    """Return how each script ended that was tuned while it trained, beside plain Python."""
    columns = ("Script", "Plain, before and after", "Tuned", "Times as fast", "It says", "Numbers that are the same")
    columns += ("The next differs by", "Ends at: plain, tuned, plain")
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for name, row in found.items():
        plain = " and ".join(map(format_duration, row["plain_seconds"]))
        said = row["said"][-1].partition("autoaccel: ")[2] if row["said"] else "nothing"
        differs = "" if row["first_difference"] is None else f"{row['first_difference']:.1g}"
        ends = ", ".join("" if one is None else f"{one:.4g}" for one in row["ends_at"])
        codes = "" if len(set(row["exit_codes"])) == 1 else f"**exit codes {row['exit_codes']}** "
        lines.append(
            f"| {name} | {plain} | {format_duration(row['seconds'])} | {codes}{row['times_as_fast']:.2f} | {said} "
            f"| {row['same']} of {row['numbers'][1]} (plain again: {row['same_in_plain']}) | {differs} | {ends} |"
        )
    return lines


_ENDS = {0: "a recipe", 1: "own settings", 2: "declined, or a larger budget", 3: "the script fails"}


def hard_cases(found: Mapping[str, Any]) -> list[str]:
    """Return how each script was tuned, and how it ran with what came of that."""
    lines = ["| Script | Tuned for a minute | Run ends as under plain Python | Left behind |", f"|{'---|' * 4}"]
    for name, row in sorted(found.items()):
        alike = (
            "" if "run_exit_code" not in row else "yes" if row["run_exit_code"] == row["plain_exit_code"] else "**no**"
        )
        ends = _ENDS.get(row["exit_code"], f"exit code {row['exit_code']}")
        said = row["said"].removeprefix("autoaccel: ")
        lines.append(f"| {name} | {ends}: {said} | {alike} | {', '.join(row['left_behind']) or 'nothing'} |")
    return lines


def users_files(found: Mapping[str, Any]) -> list[str]:
    """Return, for each setting, whether scripts that write to the user's files have changed any."""
    lines = ["| Setting | Kept apart by | Scripts | Files changed | Failed | Other samples | Added to a start |"]
    lines.append(f"|{'---|' * 7}")
    for name, row in found.items():
        kind = row["protection"]["kind"] + (" and Landlock" if row["protection"]["guarded"] else "")
        counts = [str(len(row[each])) for each in ("changed", "failed", "other samples")]
        added = format_duration(row["start adds seconds"])
        lines.append(f"| {' | '.join((name, kind, str(row['scripts']), *counts, added))} |")
    return lines


def public_scripts(found: Mapping[str, Any]) -> list[str]:
    """Return what is believed of each public script, and what of that is wrong."""
    lines = ["| Script | Counted under plain Python | Planned, as believed | Wrong |", f"|{'---|' * 4}"]
    for name, row in found.items():
        updates = [f"{one['updates']:,} of {one['kind']}" for one in row["counted"].get("optimizers", [])]
        counted = ", ".join(updates) or f"{row['counted'].get('backwards', 0):,} backward passes"
        planned = row["seen"].get("planned")
        believed = "" if not row["seen"] else "assumed" if planned is None else f"{planned:,}"
        ended = row["counted"].get("ended", "")
        said = "; ".join(row["wrong"]).replace("|", "\\|")
        lines.append(f"| {name} | {counted}, ended {ended} | {believed} | {f'**{said}**' if said else ''} |")
    return lines


def faults(found: Mapping[str, Any]) -> list[str]:
    """Return how each planted fault was called, and what it cost."""
    lines = [
        "| Fault, training | Called | Named rightly | Search went on after | Left behind | Picked the best else |",
        f"|{'---|' * 6}",
    ]
    for name, row in sorted(found.items()):
        left = [*row["left_processes"], *row["left_files"], *row["left_shared"]]
        cells = (
            name,
            "; ".join(row["called"]).replace("|", "\\|"),
            "yes" if row["is_named"] else "**no**",
            format_duration(row["seconds_until_on"]) if row["called"] else "",
            f"{len(left)}: {left[0]}" if left else "nothing",
            "yes" if row["picked"].get("loader.workers") == 2 and len(row["picked"]) == 1 else f"**{row['picked']}**",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def script_overhead(found: Mapping[str, Any]) -> list[str]:
    """Return what is added to the steps of each script, in its run and where it is measured."""
    lines = [
        "| Script | Plain step | Added by `run` | Times as long | Added by measuring | Times as long | Rounds |",
        f"|{'---|' * 7}",
    ]
    for name, row in found.items():
        # The first rows have no `run`, and are of the other way as a whole.
        ways = (row.get("run"), row.get("hooked", row))
        cells = [cell for way in ways for cell in (_added(way) if way else ("", ""))]
        plain = format_duration(statistics.median(row["plain_seconds"]))
        lines.append(f"| {' | '.join((name, plain, *cells, str(len(row['plain_seconds']))))} |")
    return lines


def script_hooks(found: Mapping[str, Any]) -> list[str]:
    """Return how long a step of each script is within the hooks of its measurement."""
    lines = ["| Script | Step | Within hooks | Of the step |", f"|{'---|' * 4}"]
    for name, row in found.items():
        middle, low, high = (1e6 * each for each in row["within_seconds"])
        share = row["within_seconds"][0] / row["step_seconds"]
        step = format_duration(row["step_seconds"])
        lines.append(f"| {name} | {step} | {middle:.0f} µs ({low:.0f} to {high:.0f}) | {100 * share:.1f} % |")
    return lines


def _added(way: Mapping[str, Any]) -> tuple[str, str]:
    middle, low, high = (1e6 * each for each in way["added_seconds"])
    return f"{middle:.0f} µs ({low:.0f} to {high:.0f})", _ratio(way["ratio"], "")


def _ratio(interval: Sequence[float | None], unit: str = "x") -> str:
    """Return a ratio with its interval, as far as there are numbers."""
    middle, low, high = interval
    if middle is None:
        return ""
    return f"{middle:.2f}{unit}" if low is None or high is None else f"{middle:.2f}{unit} ({low:.2f} to {high:.2f})"
