"""Tables of the results page about searches: replayed on tables, and live, beside their peers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from autoaccel.records.options import OWN_SAMPLER
from autoaccel.statistics.student import t_quantile


def simulation(found: dict[str, Any]) -> list[str]:
    """Return the replayed searches."""
    split = {name: row for name, row in found.items() if "horizons" in row}
    before = {name: row for name, row in found.items() if name not in split}
    lines = [*_judged_by_the_other_half(split), "", *_over_tables(split)] if split else []
    if before:
        lines += [""] if lines else []
        lines += [
            "Judged by the visits that were replayed, without a proof, over a pass in turns with the baseline:",
            "",
        ]
        lines += _judged_by_what_they_saw(before)
    return lines


def samplers(found: dict[str, Any]) -> list[str]:
    """Return the replayed searches with each sampler."""
    return [*_judged_by_the_other_half(found), "", *samplers_over_tables(found)]


def samplers_over_tables(found: dict[str, Any]) -> list[str]:
    """Return what another workload can expect of each sampler: means over tables, with Student's intervals over them.

    Regrets are compared with those of autoaccel's own sampler table by table: tables differ by more than samplers do.
    """
    horizons = [horizon for row in found.values() for horizon in row["horizons"].values()]
    lines = [
        "| `--sampler` | Searches | Regret, own steps | 50,000 steps | Above `autoaccel`'s | Of a pass | CPU seconds |",
        f"|{'---|' * 7}",
    ]
    for sampler in dict.fromkeys(name for horizon in horizons for name in horizon["peers"]):
        of_sampler = [horizon["peers"][sampler] for horizon in horizons]
        by_kind = [
            [horizon["peers"][sampler]["mean_regret"] for horizon in horizons if horizon["own"] == own]
            for own in (True, False)
        ]
        is_paired = sampler != OWN_SAMPLER and all(
            horizon["peers"][sampler]["searches"] == horizon["peers"][OWN_SAMPLER]["searches"] for horizon in horizons
        )
        more = [
            statistics.fmean(
                horizon["peers"][sampler]["mean_regret"] - horizon["peers"][OWN_SAMPLER]["mean_regret"]
                for horizon in row["horizons"].values()
            )
            for row in found.values()
        ]
        lines.append(
            f"| `{sampler}` | {sum(one['searches'] for one in of_sampler)} "
            f"| {' | '.join(map(_mean_and_interval, by_kind))} "
            f"| {_difference(more) if is_paired else ''} "
            f"| {statistics.fmean(one['of_single_pass'] for one in of_sampler):.0%} "
            f"| {statistics.fmean(one['cpu_seconds'] for one in of_sampler):.1f} |"
        )
    lines += ["", f"Means over {len(found)} tables; in brackets Student's 95 % interval over them."]
    return lines


def _difference(values: Sequence[float]) -> str:
    mean = statistics.fmean(values)
    if len(values) == 1:
        return f"{mean:+.1%}"
    radius = t_radius(values)
    return f"{mean:+.1%} ({mean - radius:+.1%} to {mean + radius:+.1%})"


def _judged_by_the_other_half(found: dict[str, Any]) -> list[str]:
    """Return searches that replayed one half of the visits and are judged by the other."""
    lines = [
        "| Workload | Steps | Resolution | Who | Mean regret (95 %) | 90th | Kept own | Seconds | Of a pass | Near |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in found.items():
        for steps, horizon in row["horizons"].items():
            for peer, one in horizon["peers"].items():
                reached = one["median_seconds_to_close"]
                close = "seldom" if reached is None else f"{reached:.0f} s"
                low, high = one["mean_regret_interval"]
                lines.append(
                    f"| {name} | {int(steps):,} | {horizon['resolution']:.1%} | {peer} "
                    f"| {one['mean_regret']:.1%} ({low:.1%} to {high:.1%}) | {one['p90_regret']:.1%} "
                    f"| {one['kept_own']:.0%} | {one['median_seconds']:.0f} | {one['of_single_pass']:.0%} | {close} |"
                )
    return lines


def _over_tables(found: dict[str, Any]) -> list[str]:
    """Return the means over tables, which are what another workload can expect, with Student's interval over them."""
    kinds = {"the planned run": True, "50,000 steps": False}
    means: dict[str, dict[str, list[float]]] = {}
    for row in found.values():
        for horizon in row["horizons"].values():
            kind = next(name for name, own in kinds.items() if own == horizon["own"])
            means.setdefault("(the resolution)", {}).setdefault(kind, []).append(horizon["resolution"])
            for peer, one in horizon["peers"].items():
                means.setdefault(peer, {}).setdefault(kind, []).append(one["mean_regret"])
    lines = [
        f"Mean regret over the {len(found)} tables, with Student's 95 % interval over them:",
        "",
        f"| Search | {' | '.join(kinds)} |",
        f"|---|{'---|' * len(kinds)}",
    ]
    for peer, by_kind in means.items():
        cells = (_mean_and_interval(by_kind.get(kind, [])) for kind in kinds)
        lines.append(f"| {peer} | {' | '.join(cells)} |")
    return lines


def _mean_and_interval(values: Sequence[float]) -> str:
    if not values:
        return ""
    if len(values) == 1:
        return f"{values[0]:.1%}"
    mean = statistics.fmean(values)
    radius = t_radius(values)
    return f"{mean:.1%} ({max(0.0, mean - radius):.1%} to {mean + radius:.1%})"


def t_radius(values: Sequence[float]) -> float:
    """Return half the width of Student's 95 % interval of the mean; there must be two values."""
    return t_quantile(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def _judged_by_what_they_saw(found: dict[str, Any]) -> list[str]:
    """Return searches that replayed the visits that also said what was best, and paid for no proof."""
    lines = [
        "| Workload | Steps | Search | Regret, median | 90th perc. | Seconds | Of table | Of one pass | Within 2 % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, horizons in found.items():
        for steps, peers in horizons.items():
            for peer, row in peers.items():
                reached = row["median_seconds_to_close"]
                close = "seldom" if reached is None else f"{reached:.0f} s"
                lines.append(
                    f"| {name} | {int(steps):,} | {peer} | {row['median_regret']:.1%} | {row['p90_regret']:.1%} "
                    f"| {row['median_seconds']:.0f} | {row['share_of_grid']:.1%} | {row['share_of_one_pass']:.1%} "
                    f"| {close} |"
                )
    return lines


def live(found: dict[str, Any]) -> list[str]:
    """Return the live comparison."""
    picks = list(dict.fromkeys(pick for row in found.values() for pick in row["picks"]))
    lines = [
        f"| Workload | {' | '.join(picks)} | autoaccel over the best | Its search, of the table's time |",
        f"|{'---|' * (len(picks) + 3)}",
    ]
    for name, row in found.items():
        speeds = " | ".join(_speed(row["picks"].get(pick)) for pick in picks)
        ratio = "the same settings" if picked_alike(row) else f"{row['autoaccel_over_best']:.3f}"
        lines.append(f"| {name} | {speeds} | {ratio} | {row['search_share_of_table']:.1%} |")
    ratios = [math.log(row["autoaccel_over_best"]) for row in found.values() if not picked_alike(row)]
    same = len(found) - len(ratios)
    told = f"In {same} of {len(found)} autoaccel's pick is the table's best, which says nothing of their ratio. "
    if len(ratios) < 2:
        return [*lines, "", f"{told}The others are too few for a mean."]
    mean, radius = statistics.fmean(ratios), t_radius(ratios)
    low, high = math.exp(mean - radius), math.exp(mean + radius)
    told += f"Geometric mean of the other {len(ratios)}: {math.exp(mean):.2f} (Student's 95 % interval over workloads, "
    return [*lines, "", f"{told}{low:.2f} to {high:.2f})."]


def _speed(pick: dict[str, Any] | None) -> str:
    if pick is None:
        return ""
    interval = pick.get("run_interval")
    return f"{pick['run_speedup']:.2f}x" + (f" ({interval[0]:.2f} to {interval[1]:.2f})" if interval else "")


def rescored(found: dict[str, Any]) -> list[str]:
    """Return the recorded picks, scored with a first compilation and with a warm one."""
    picks = list(dict.fromkeys(pick for row in found.values() for pick in row["picks"]))
    lines = [f"| Workload | {' | '.join(picks)} |", f"|---|{'---|' * len(picks)}"]
    for name, row in found.items():
        cells = (row["picks"].get(pick) for pick in picks)
        shown = " | ".join(f"{one['cold']:.2f}x, warm {one['warm']:.2f}x" if one else "" for one in cells)
        lines.append(f"| {name} | {shown} |")
    better = [
        f"on {name} {who} gives {one['warm']:.2f}x where autoaccel gives {row['picks']['autoaccel']['warm']:.2f}x"
        for name, row in found.items()
        for who, one in row["picks"].items()
        if who.startswith("optuna") and one["warm"] > 1.005 * row["picks"]["autoaccel"]["warm"]
    ]
    told = "Optuna minimised a run that finds its compilation warm, and was scored by one that has to compile first. "
    told += "By its own objective, " + ("; ".join(better) if better else "it wins nowhere") + "."
    return [*lines, "", told]


def picked_alike(found: Mapping[str, Any]) -> bool:
    """Whether autoaccel's pick is the table's best: what two processes of the same settings differ by is chance."""
    ours, best = (changes_in(found["picks"][who]["settings"]) for who in ("autoaccel", "table's best"))
    return ours == best


def changes_in(described: str) -> frozenset[str]:
    """Return the changes that a row names, whatever their order."""
    return frozenset(described.split(", "))


def simulated_machines(found: dict[str, Any]) -> list[str]:
    """Return searches on models of machines that are only recorded."""
    lines = [
        "| Machine | Searches | Settings | Best, median | Tried within 5 % | Would prove such | Nine of ten | Trials |",
        f"|{'---|' * 8}",
    ]
    for name, row in found.items():
        best = f"{row['searches']} | {row['size']:,} | {row['median_best_speedup']:.2f}x"
        shares = f"{row['reached']:.1%} | {row['close']:.1%} | {row['tenth_share']:.1%}"
        lines.append(f"| {name} | {best} | {shares} | {row['median_trials']:.0f} |")
    return lines
