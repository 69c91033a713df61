"""What the page says of trainings that the tuner has never seen."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from report_searches import t_radius

from autoaccel.units import format_duration

PEERS = ("grid's best", "optuna", "everything on", "run_cpu")
GOOD = 0.95  # of the grid's best


def unseen(found: Mapping[str, Any]) -> list[str]:
    """Return what each contender came to on each workload, and what that makes of each half."""
    rows = dict(sorted(found.items(), key=lambda entry: (entry[1]["half"], entry[0])))
    return [*_tunes(rows), "", *_picks(rows), "", *_halves(rows)]


def _tunes(rows: Mapping[str, Any]) -> list[str]:
    """Return what `autoaccel tune` said."""
    lines = [
        "| Half | Workload | Step | Planned run | `autoaccel tune` | Evidence | Proven after | Ended after |",
        f"|{'---|' * 8}",
    ]
    for name, row in rows.items():
        own, tuned = row["own_step_seconds"], row["tune"]
        run = format_duration(row["planned_steps"] * own)
        if is_proven(row):
            one, changes = tuned["comparison"], row["picks"]["autoaccel"]["settings"]
            said = f"{one['speedup']:.2f}x ({one['low']:.2f} to {one['high']:.2f}): {changes}"
        else:
            said = tuned.get("summary", tuned["said"])
        after = tuned["search"]["proven_after_seconds"] if is_proven(row) else None
        ended = format_duration(tuned["wall_seconds"])
        cells = (row["half"], name, format_duration(own), run, said, _evidence(tuned), _or_nothing(after), ended)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _or_nothing(seconds: float | None) -> str:
    return "" if seconds is None else format_duration(seconds)


def is_proven(row: Mapping[str, Any]) -> bool:
    """Whether a recipe was handed back."""
    return bool(row["tune"]["exit_code"] == 0)


def _evidence(tuned: Mapping[str, Any]) -> str:
    accuracy = tuned.get("accuracy")
    if tuned["exit_code"] or not accuracy:
        return ""
    share = accuracy["share"]
    return f"{accuracy['evidence']}, {share:.0%} of the run" if 0 < share < 1 else str(accuracy["evidence"])


def _picks(rows: Mapping[str, Any]) -> list[str]:
    """Return what all picks are worth, measured side by side."""
    told = "Speed-up of the planned run, start-up included, on average over 20 of which the first compiles; "
    told += "in brackets of the steps alone, with Student's 95 % interval over rounds of fresh processes:"
    lines = [
        told,
        "",
        f"| Half | Workload | autoaccel | {' | '.join(PEERS)} | autoaccel over the grid's best |",
        f"|{'---|' * (len(PEERS) + 4)}",
    ]
    for name, row in rows.items():
        cells = " | ".join(_speed(row["picks"][who]) for who in ("autoaccel", *PEERS))
        ours = row["picks"]["autoaccel"]
        over = f"{ours['run_over_grid']:.3f}{_steps(ours['steps_over_grid'])}" if "steps_over_grid" in ours else ""
        lines.append(f"| {row['half']} | {name} | {cells} | {over} |")
    return lines


def _speed(pick: Mapping[str, Any]) -> str:
    return f"{pick['run']:.2f}x{_steps(pick['steps'])}" if "run" in pick else "does not train"


def _steps(ratio: Sequence[float | None]) -> str:
    middle, low, high = ratio
    return f" ({middle:.2f}, {low:.2f} to {high:.2f})" if low is not None else f" ({middle:.2f})"


def _halves(rows: Mapping[str, Any]) -> list[str]:
    """Return what each half comes to, and both."""
    who = ("autoaccel", *PEERS)
    halves = {half: [row for row in rows.values() if row["half"] == half] for half in ("first", "second")}
    if all(halves.values()):
        halves["both"] = list(rows.values())
    heads = (
        f"| Half | Workloads | Proven | At least {GOOD} of the grid's best | Slower than own | Proven after, median "
    )
    lines = [
        f"{heads}| {' | '.join(who)} | autoaccel over the grid's best |",
        f"|{'---|' * (len(who) + 7)}",
    ]
    for half, some in halves.items():
        if not some:
            continue
        proven = [row for row in some if is_proven(row)]
        after = [seconds for row in proven if (seconds := row["tune"]["search"]["proven_after_seconds"]) is not None]
        close = sum(row["picks"]["autoaccel"].get("run_over_grid", 0.0) >= GOOD for row in some)
        means = " | ".join(_mean([row["picks"][one].get("run", math.nan) for row in some]) for one in who)
        over = _mean([row["picks"]["autoaccel"].get("run_over_grid", math.nan) for row in some])
        median = _or_nothing(statistics.median(after) if after else None)
        slower = sum(map(is_slower, some))
        lines.append(f"| {half} | {len(some)} | {len(proven)} | {close} | {slower} | {median} | {means} | {over} |")
    told = "The means are geometric, with Student's 95 % interval over workloads. A pick that does not train is worth"
    told += " the user's own settings in them. Slower than own: the whole interval of the steps is below 1."
    return [*lines, "", told]


def is_slower(row: Mapping[str, Any]) -> bool:
    """Whether what autoaccel handed back is slower than the user's own settings."""
    high = row["picks"]["autoaccel"].get("steps", [None, None, None])[2]
    return high is not None and high < 1


def _mean(ratios: Sequence[float]) -> str:
    """Return the geometric mean of ratios with its interval; nan stands for 1."""
    logs = [0.0 if math.isnan(ratio) else math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return f"{math.exp(mean):.2f}"
    radius = t_radius(logs)
    return f"{math.exp(mean):.2f} ({math.exp(mean - radius):.2f} to {math.exp(mean + radius):.2f})"
