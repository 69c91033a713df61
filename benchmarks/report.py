"""Write benchmarks/results/README.md: one page of tables from the results that are there.

python benchmarks/report.py
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import report_advice as advice
import report_levers as levers
import report_ranks as several

RESULTS = Path(__file__).parent / "results"


def simulation(found: dict[str, Any]) -> list[str]:
    """Return the replayed searches."""
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
    picks = list(next(iter(found.values()))["picks"])
    lines = [
        f"| Workload | {' | '.join(picks)} | autoaccel over the best | Its search, of the table's time |",
        f"|{'---|' * (len(picks) + 3)}",
    ]
    for name, row in found.items():
        speeds = " | ".join(f"{row['picks'][pick]['run_speedup']:.2f}x" for pick in picks)
        lines.append(f"| {name} | {speeds} | {row['autoaccel_over_best']:.3f} | {row['search_share_of_table']:.1%} |")
    ratios = [row["autoaccel_over_best"] for row in found.values()]
    return [*lines, "", f"Geometric mean of autoaccel over the table's best: {statistics.geometric_mean(ratios):.3f}."]


def false_wins(found: dict[str, Any]) -> list[str]:
    """Return how often the baseline was called faster than itself."""
    lines = ["| Comparisons | Called faster | Outcomes |", "|---|---|---|"]
    for kind, row in found.items():
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in row["outcomes"].items())
        lines.append(f"| {row['comparisons']:,} {kind} | {row['false_win_share']:.2%} | {outcomes} |")
    return lines


def claims(found: dict[str, Any]) -> list[str]:
    """Return claims beside what was measured later."""
    lines = ["| Recipe | Claimed | Measured again | Hours between | Error | Covered |", "|---|---|---|---|---|---|"]
    for name, row in found.items():
        one, other = row["claimed"], row["measured"]
        lines.append(
            f"| {name} | {one['speedup']:.2f} ({one['low']:.2f} to {one['high']:.2f}) | {other['speedup']:.2f} "
            f"| {row['hours_between']:.1f} | {row['error']:+.1%} | {'yes' if row['covered'] else 'no'} |"
        )
    errors = [abs(row["error"]) for row in found.values()]
    covered = statistics.fmean(row["covered"] for row in found.values())
    return [*lines, "", f"Median error {statistics.median(errors):.1%}; {covered:.0%} of the intervals cover."]


def search_cost(found: dict[str, Any]) -> list[str]:
    """Return what runs spent their time on."""
    names = list(next(iter(found.values()))[0]["spent_on"])
    for rows in found.values():
        names += [name for row in rows for name in row["spent_on"] if name not in names]
    after = "Speed proven after | The tuner itself while it measures | all in all"
    lines = [
        f"| Version | Seconds | Trials | {' | '.join(names)} | {after} |",
        f"|{'---|' * (len(names) + 6)}",
    ]
    for label, rows in found.items():
        for row in rows:
            total = sum(row["spent_on"].values())
            shares = " | ".join(f"{row['spent_on'].get(name, 0.0) / total:.0%}" for name in names)
            proven, measuring = row["proven_after_seconds"], row["tuner_share_while_measuring"]
            waiting = "not told" if measuring is None else f"{measuring:.1%} of a core"
            lines.append(
                f"| {label} | {row['seconds']:.0f} | {row['trials']} | {shares} "
                f"| {f'{proven:.0f} s' if proven else 'not told'} "
                f"| {waiting} | {row['tuner_share_of_search_and_proof']:.1%} |"
            )
    return lines


def neighbour(found: dict[str, Any]) -> list[str]:
    """Return the picks made beside a neighbour."""
    lines = ["| Run | Disturbed turns | Speed of its pick | What it said |", "|---|---|---|---|"]
    for name, row in found["runs"].items():
        lines.append(
            f"| {name} | {row['disturbed_share']:.0%} | {row['speed_relative_to_undisturbed_pick']:.3f} "
            f"| {row['summary']} |"
        )
    return lines


def break_even(found: dict[str, Any]) -> list[str]:
    """Return what short and long runs of one model get."""
    lines = [
        "| Model | Planned steps | Picked | Best by the table | Regret by the table | Pays from step |",
        "|---|---|---|---|---|---|",
    ]
    for name, lengths in found.items():
        for steps, row in sorted(lengths.items(), key=lambda entry: int(entry[0])):
            best, regret = row["table's best"], row["regret_by_the_table"]
            lines.append(
                f"| {name} | {int(steps):,} | {row['picked']} | {best} | {regret:.1%} | {row['break_even_steps']:,} |"
            )
    return lines


def examples(found: dict[str, Any]) -> list[str]:
    """Return what the examples came to."""
    lines = [
        "| Example | Exit code | Changed | Speed-up claimed | Measured again | Tuned in |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in found.items():
        own = row["baseline"]["settings"]
        change = ", ".join(f"{knob} {value}" for knob, value in row["settings"].items() if value != own[knob])
        claimed, measured = row["comparison"], row.get("verified", {}).get("measured")
        seconds = row["search"]["spent_seconds"]
        if not measured:
            lines.append(f"| `{name}` | {row['exit_code']} | none | | | {seconds:.0f} s |")
            continue
        lines.append(
            f"| `{name}` | {row['exit_code']} | {change} "
            f"| {claimed['speedup']:.2f} ({claimed['low']:.2f} to {claimed['high']:.2f}) "
            f"| {measured['speedup']:.2f} ({measured['low']:.2f} to {measured['high']:.2f}) | {seconds:.0f} s |"
        )
    return [*lines, "", *(f"- `{name}`: {row['summary']}" for name, row in found.items())]


SECTIONS: dict[str, tuple[str, str, Callable[[dict[str, Any]], list[str]]]] = {
    "examples": ("What the examples came to", "make examples", examples),
    "simulation": ("Searches replayed on the tables", "make simulate", simulation),
    "live": ("Live, in the same time: projected speed-up of the planned run", "make live", live),
    "false_wins": ("The baseline against itself", "make false-wins", false_wins),
    "claims": ("Claims, and what was measured later", "make claims", claims),
    "search_cost": ("What a run spends its time on", "make search-cost", search_cost),
    "neighbour": ("Beside a neighbour that hogs all cores in bursts", "make neighbour", neighbour),
    "break_even": ("The same model, short and long", "python benchmarks/break_even.py", break_even),
    "planted": ("Problems that were planted", "make planted", advice.planted),
    "advice": ("Advice on the examples", "make advice", advice.examples),
    "bounds": ("What bounds are worth to a search", "make simulate", advice.bounds),
    "pairs": ("Every two knobs together", "make check-knobs", levers.pairs),
    "libraries": ("OpenMP runtimes and allocators", "make libraries", levers.libraries),
    "pruning": ("Sparsity against time and accuracy", "make pruning", levers.pruning),
    "nni": ("NNI beside today's torch", "make check-nni", levers.nni),
    "ipex": ("Intel's extension", "make check-ipex", levers.ipex),
    "ranks": ("Two ranks on two cores", "make check-ranks", several.ranks),
    "machines": ("Two machines, one of whose ranks is killed", "make check-machines", several.machines),
    "launchers": ("The same recipe through every launcher", "make check-launchers", several.launchers),
    "sharing": ("Several workers of one study, one killed", "make check-sharing", several.sharing),
    "report_page": ("Reports in a browser", "make check-report", advice.report_page),
    "scaling": ("Published run times, predicted", "make scaling", several.scaling),
}
"""File of results -> title, the command that makes it, what writes its table."""


def main() -> None:
    """Write the page."""
    machine = json.loads((RESULTS / "examples.json").read_text())
    some = next(iter(machine.values()))
    lines = [
        "# Results",
        "",
        "Each table is written from the data beside it, by `benchmarks/report.py`; what they mean is in",
        f"[../README.md](../README.md). On {some['usable_cores']} cores of an {some['cpu']}, torch",
        f"{some['versions']['torch']}, no GPU, unless a section says otherwise.",
    ]
    for name, (title, command, write) in SECTIONS.items():
        path = RESULTS / f"{name}.json"
        if path.exists():
            lines += ["", f"## {title}", "", f"`{command}`, data in [{name}.json]({name}.json).", ""]
            lines += write(json.loads(path.read_text()))
    (RESULTS / "README.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
