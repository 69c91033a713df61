"""Tables, examples, and what runs of the tuner come to."""

from __future__ import annotations

from typing import Any


def tables(found: dict[str, Any]) -> list[str]:
    """Return what was measured of each space."""
    lines = ["| Workload | Settings | Visits | Rounds | Measured for |", "|---|---|---|---|---|"]
    for name, row in found.items():
        lines.append(
            f"| {name} | {row['settings']} | {row['visits']:,} | {row['rounds']} | {row['seconds'] / 3600:.1f} h |"
        )
    return lines


def examples(found: dict[str, Any]) -> list[str]:
    """Return what the examples came to."""
    lines = [
        "| Example | Knobs | Exit code | Changed | Speed-up claimed | Measured again | Speed proven after | Tuned in |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in found.items():
        baseline = row["baseline"]["settings"]
        change = ", ".join(f"{knob} {value}" for knob, value in row["settings"].items() if value != baseline[knob])
        claimed, measured = row["comparison"], row.get("verified", {}).get("measured")
        seconds, proven = row["search"]["spent_seconds"], row["search"].get("proven_after_seconds")
        if not measured:
            lines.append(f"| {name} | {len(row['settings'])} | {row['exit_code']} | none | | | | {seconds:.0f} s |")
            continue
        lines.append(
            f"| {name} | {len(row['settings'])} | {row['exit_code']} | {change} "
            f"| {claimed['speedup']:.2f} ({claimed['low']:.2f} to {claimed['high']:.2f}) "
            f"| {measured['speedup']:.2f} ({measured['low']:.2f} to {measured['high']:.2f}) "
            f"| {f'{proven:.0f} s' if proven else 'not told'} | {seconds:.0f} s |"
        )
    return [*lines, "", *(f"- {name}: {row['summary']}" for name, row in found.items())]


def search_cost(found: dict[str, Any]) -> list[str]:
    """Return what runs spent their time on."""
    names = list(dict.fromkeys(name for row in found.values() for name in row["spent_on"]))
    after = "Speed proven after | The tuner itself while it measures | all in all"
    lines = [
        f"| Version | Seconds | Trials | {' | '.join(names)} | {after} |",
        f"|{'---|' * (len(names) + 6)}",
    ]
    for label, row in found.items():
        total = sum(row["spent_on"].values())
        shares = " | ".join(f"{row['spent_on'].get(name, 0.0) / total:.0%}" for name in names)
        proven, measuring = row["proven_after_seconds"], row.get("tuner_share_while_measuring")
        in_all = row.get("tuner_share_of_search_and_proof")
        waiting = "not told" if measuring is None else f"{measuring:.1%} of a core"
        lines.append(
            f"| {label} | {row['seconds']:.0f} | {row['trials']} | {shares} "
            f"| {f'{proven:.0f} s' if proven else 'not told'} "
            f"| {waiting} | {'not told' if in_all is None else f'{in_all:.1%}'} |"
        )
    return lines


def neighbour(found: dict[str, Any]) -> list[str]:
    """Return the picks made beside a neighbour."""
    lines = ["| Run | Disturbed turns | Speed of its pick | What it said |", "|---|---|---|---|"]
    for name, row in found["runs"].items():
        interval = row.get("interval")
        shown = f" ({interval[0]:.3f} to {interval[1]:.3f})" if interval else ""
        lines.append(
            f"| {name} | {row['disturbed_share']:.0%} | {row['speed_relative_to_undisturbed_pick']:.3f}{shown} "
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
