"""What the page says of trainings that the tuner has never seen."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from autoaccel.records.progress import StageName
from autoaccel.units import format_duration
from benchmarks.page.searches import t_radius

PEERS = ("grid's best", "optuna", "everything on", "run_cpu")
GOOD = 0.95  # of the grid's best
HALVES = ("first", "second")
_A_MOMENT = 1.0  # seconds, about which no plan needs to be right

Pieces = Mapping[str, Any]
"""Of one workload: piece -> what was found."""


def unseen(found: Mapping[str, Any]) -> list[str]:
    """Return what each contender came to on each workload, and what that makes of each half."""
    workloads: dict[str, dict[str, Any]] = {}
    for name, row in found.items():
        workload, _, piece = name.partition(": ")
        workloads.setdefault(workload, {})[piece] = row
    tuned = {name: pieces for name, pieces in sorted(workloads.items(), key=_order) if "autoaccel" in pieces}
    compared = {name: pieces for name, pieces in tuned.items() if is_compared(pieces)}
    lines = [*_tunes(tuned), "", *_stages(tuned)]
    if compared:
        lines += ["", *_picks(compared), "", *_halves(tuned, compared)]
    return lines


def _order(entry: tuple[str, Pieces]) -> tuple[str, str]:
    name, pieces = entry
    return next(iter(pieces.values()))["half"], name


def is_compared(pieces: Pieces) -> bool:
    """Whether what the tune handed back was measured beside what others chose: not another tune's recipe."""
    if "side_by_side" not in pieces:
        return False
    is_same: bool = pieces["side_by_side"]["choices"]["autoaccel"] == pieces["autoaccel"]["choice"]
    return is_same


def is_proven(pieces: Pieces) -> bool:
    """Whether a recipe was handed back."""
    return bool(pieces["autoaccel"]["exit_code"] == 0)


def recipe_after_seconds(tuned: Mapping[str, Any]) -> float:
    """Return when the first recipe was proven and written, metric included.

    Rows from before recipes said so tell when the last proof had ended: what comes after it only tells more.
    """
    said = tuned["search"].get("recipe_after_seconds")
    if said is not None:
        return float(said)
    stages = get_args(StageName)
    later = stages[stages.index("metric") + 1 :]
    spent = sum(one["spent_seconds"] for one in tuned["search"]["stages"] if one["stage"] in later)
    return float(tuned["search"]["spent_seconds"]) - spent


def _tunes(rows: Mapping[str, Pieces]) -> list[str]:
    """Return what `autoaccel tune` said."""
    heads = "| Half | Workload | Step | Planned run | `autoaccel tune` | Evidence "
    lines = [f"{heads}| Speed proven after | Recipe after | Ended after |", f"|{'---|' * 9}"]
    for name, pieces in rows.items():
        tuned = pieces["autoaccel"]
        step, run = _lengths(pieces)
        said, evidence, speed, recipe = tuned.get("summary", tuned["said"]), "", "", ""
        if is_proven(pieces):
            one = tuned["comparison"]
            said = f"{one['speedup']:.2f}x ({one['low']:.2f} to {one['high']:.2f}): {changes_of(tuned['choice'])}"
            evidence, recipe = evidence_of(tuned["accuracy"]), format_duration(recipe_after_seconds(tuned))
            speed = _or_nothing(tuned["search"]["proven_after_seconds"])
        ended = format_duration(tuned["wall_seconds"])
        lines.append(f"| {' | '.join((tuned['half'], name, step, run, said, evidence, speed, recipe, ended))} |")
    return lines


def _lengths(pieces: Pieces) -> tuple[str, str]:
    """Return how long a step and the planned run take; nothing where nobody has measured a step."""
    known = next((one for one in pieces.values() if "own_step_seconds" in one), None)
    if known is None:
        return "", ""
    seconds = known["own_step_seconds"]
    return format_duration(seconds), format_duration(known["planned_steps"] * seconds)


def changes_of(choice: Mapping[str, Any]) -> str:
    """Return a choice's settings in a line."""
    return ", ".join(f"{name}={value}" for name, value in choice["settings"].items())


def _or_nothing(seconds: float | None) -> str:
    return "" if seconds is None else format_duration(seconds)


def evidence_of(accuracy: Mapping[str, Any] | None) -> str:
    """Return by which evidence the metric is kept; nothing if nobody asked."""
    if not accuracy:
        return ""
    share = accuracy["share"]
    return f"{accuracy['evidence']}, {share:.0%} of the run" if 0 < share < 1 else str(accuracy["evidence"])


def _stages(rows: Mapping[str, Pieces]) -> list[str]:
    """Return what each stage of each tune took, beside what it was planned to take."""
    names = get_args(StageName)
    within: dict[str, list[bool]] = {name: [] for name in names}
    ratios: dict[str, list[float]] = {name: [] for name in names}
    lines = [
        "Seconds that each stage took, of those that it was planned to take when it began:",
        "",
        f"| Half | Workload | {' | '.join(names)} |",
        f"|{'---|' * (len(names) + 2)}",
    ]
    for workload, pieces in rows.items():
        tuned = pieces["autoaccel"]
        times = {one["stage"]: one for one in tuned.get("search", {}).get("stages", ())}
        cells = []
        for name in names:
            if name not in times:
                cells.append("")
                continue
            planned, spent = times[name]["planned_seconds"], times[name]["spent_seconds"]
            within[name].append(is_as_planned(planned, spent))
            if max(planned, spent) > _A_MOMENT:
                ratios[name].append(spent / planned if planned else math.inf)
            cells.append(f"{spent:.0f} of {planned:.0f}")
        lines.append(f"| {tuned['half']} | {workload} | {' | '.join(cells)} |")
    counts = " | ".join(f"{sum(one)} of {len(one)}" if one else "" for one in within.values())
    medians = " | ".join(f"{statistics.median(some):.2f}" if some else "" for some in ratios.values())
    every = [one for some in within.values() for one in some]
    told = f"As planned are {sum(every)} of {len(every)}: within a quarter of the plan, or a second."
    told += " The median of what was spent over what was planned leaves out stages of a second."
    return [*lines, f"| | as planned | {counts} |", f"| | spent over planned, median | {medians} |", "", told]


def is_as_planned(planned: float, spent: float) -> bool:
    """Whether a stage took what it was planned to take: within a quarter, or a second where that is more."""
    return abs(spent - planned) <= max(_A_MOMENT, planned / 4)


def _picks(rows: Mapping[str, Pieces]) -> list[str]:
    """Return what all picks are worth, measured side by side."""
    told = "Speed-up of the planned run, start-up included, on average over 20 of which the first compiles; "
    told += "in brackets of the steps alone, with Student's 95 % interval over rounds of fresh processes, in which all"
    told += " of a line were alive together and took turns:"
    lines = [
        told,
        "",
        f"| Half | Workload | autoaccel | {' | '.join(PEERS)} | autoaccel over the grid's best | Rounds |",
        f"|{'---|' * (len(PEERS) + 5)}",
    ]
    for name, pieces in rows.items():
        beside = pieces["side_by_side"]
        cells = " | ".join(_speed(beside["picks"].get(who)) for who in ("autoaccel", *PEERS))
        ours = beside["picks"]["autoaccel"]
        over = f"{ours['run_over_grid']:.3f}{_steps(ours['steps_over_grid'])}" if "steps_over_grid" in ours else ""
        lines.append(f"| {beside['half']} | {name} | {cells} | {over} | {len(beside['rounds'])} |")
    return lines


def _speed(pick: Mapping[str, Any] | None) -> str:
    if pick is None:
        return ""  # its search was not made yet
    return f"{pick['run']:.2f}x{_steps(pick['steps'])}" if "run" in pick else "does not train"


def _steps(ratio: Sequence[float | None]) -> str:
    middle, low, high = ratio
    return f" ({middle:.2f}, {low:.2f} to {high:.2f})" if low is not None else f" ({middle:.2f})"


def _halves(tuned: Mapping[str, Pieces], compared: Mapping[str, Pieces]) -> list[str]:
    """Return what each half comes to, and both."""
    who = ("autoaccel", *PEERS)
    heads = "| Half | Tuned | Proven | Speed proven after, median | Recipe after, median "
    heads += f"| Compared | At least {GOOD} of the grid's best | Slower than own "
    lines = [
        f"{heads}| {' | '.join(who)} | autoaccel over the grid's best | its median | autoaccel over the best of all |",
        f"|{'---|' * (len(who) + 11)}",
    ]
    present = [half for half in HALVES if any(_is_of(half, pieces) for pieces in tuned.values())]
    for half in (*present, *(["both"] if len(present) > 1 else [])):
        some = [pieces for pieces in tuned.values() if _is_of(half, pieces)]
        picks = [pieces["side_by_side"]["picks"] for pieces in compared.values() if _is_of(half, pieces)]
        proven = [pieces["autoaccel"] for pieces in some if is_proven(pieces)]
        speeds = [at for one in proven if (at := one["search"]["proven_after_seconds"]) is not None]
        recipes = [recipe_after_seconds(one) for one in proven]
        medians = " | ".join(_or_nothing(statistics.median(all_of) if all_of else None) for all_of in (speeds, recipes))
        close = sum(one["autoaccel"].get("run_over_grid", 0.0) >= GOOD for one in picks)
        slower = sum(map(is_slower, picks))
        means = " | ".join(_mean([one[name].get("run", math.nan) for one in picks if name in one]) for name in who)
        overs = [one["autoaccel"].get("run_over_grid", math.nan) for one in picks]
        over = f"{_mean(overs)} | {_median(overs)}"
        best = _mean([_over_the_best(one) for one in picks])
        counts = f"| {half} | {len(some)} | {len(proven)} | {medians} | {len(picks)} | {close} | {slower} "
        lines.append(f"{counts}| {means} | {over} | {best} |")
    told = "The means are geometric, with Student's 95 % interval over workloads. A pick that does not train is worth"
    told += " the user's own settings in them. Slower than own: the whole interval of the steps is below 1."
    told += " The median stands beside the mean because a single workload can move the mean."
    told += " Recipe after: when the first proven recipe was written, its metric included. The best of all: the fastest"
    told += " run of a line, autoaccel's own and the user's own settings included."
    return [*lines, "", told]


def _is_of(half: str, pieces: Pieces) -> bool:
    return half == "both" or pieces["autoaccel"]["half"] == half


def _over_the_best(picks: Mapping[str, Any]) -> float:
    """Return the speed-up of autoaccel's pick over that of the fastest, the user's own settings included."""
    found = [pick.get("run", 1.0) for pick in picks.values()]
    return float(picks["autoaccel"].get("run", 1.0) / max(1.0, *found))


def is_slower(picks: Mapping[str, Any]) -> bool:
    """Whether what autoaccel handed back is slower than the user's own settings."""
    high = picks["autoaccel"].get("steps", [None, None, None])[2]
    return high is not None and high < 1


def _mean(ratios: Sequence[float]) -> str:
    """Return the geometric mean of ratios with its interval; nan stands for 1, nothing for none."""
    if not ratios:
        return ""
    logs = [0.0 if math.isnan(ratio) else math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return f"{math.exp(mean):.2f}"
    radius = t_radius(logs)
    return f"{math.exp(mean):.2f} ({math.exp(mean - radius):.2f} to {math.exp(mean + radius):.2f})"


def _median(ratios: Sequence[float]) -> str:
    """Return the median of ratios; nan stands for 1, nothing for none."""
    return f"{statistics.median(1.0 if math.isnan(ratio) else ratio for ratio in ratios):.2f}" if ratios else ""
