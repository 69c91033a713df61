"""Tables of the results page about several ranks, machines and workers."""

from __future__ import annotations

from typing import Any


def launchers(found: dict[str, Any]) -> list[str]:
    """Return what each launcher's training came to."""
    lines = [
        f'{found["ranks"]} ranks; "several machines" are played by one. '
        + ", ".join(f"{name} {version}" for name, version in found["versions"].items())
        + ".",
        "",
        "| Launcher | Exit codes | Accuracy | Start to end |",
        "|---|---|---|---|",
    ]
    for name, row in found["rows"].items():
        codes, metrics = (", ".join(map(str, row[part])) for part in ("exit_codes", "metrics"))
        lines.append(f"| {name} | {codes} | {metrics} | {row['seconds']:.0f} s |")
    return lines


def sharing(found: dict[str, Any]) -> list[str]:
    """Return what became of studies in which a worker was killed."""
    lines = [
        "| Studies | Killed in a trial | Trials | Run twice | Lost | Regret, median | Seconds to the best | Seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    names = {"postgresql": "in PostgreSQL", "journal": "in a journal", "nobody_killed": "in a journal"}
    for kind, name in names.items():
        row = found[kind]
        lines.append(
            f"| {row['studies']} {name} | {row['killed_in_a_trial']} | {row['trials']} | {row['run_twice']} "
            f"| {row['lost']} | {row['median_regret']:.1%} | {row['median_seconds_to_best']:.0f} "
            f"| {row['median_seconds']:.0f} |"
        )
    alone = found["one_worker"]
    told = (
        f"{found['workers']} workers each, on the table of {found['table']}. One worker alone needs "
        f"{alone['median_trials']} trials, {alone['median_seconds_to_best']:.0f} seconds to the best and "
        f"{alone['median_seconds']:.0f} in all, with a regret of {alone['median_regret']:.1%} (medians). A search in "
        "which one is killed goes on until the others have noticed, after 150 seconds here, and measured what it left."
    )
    return [*lines, "", told]


def machines(found: dict[str, Any]) -> list[str]:
    """Return what two machines came to, one of whose ranks was killed."""
    lines = ["| Run | Exit codes | Accuracy | Printed |", "|---|---|---|---|"]
    for name in ("undisturbed", "a rank killed"):
        row = found[name]
        printed = "; ".join(line for lines in row["printed"] for line in lines if line.startswith("trained"))
        lines.append(f"| {name} | {', '.join(map(str, row['exit codes']))} | {row['accuracy']} | {printed} |")
    return lines


def ranks(found: dict[str, Any]) -> list[str]:
    """Return what ranks leave behind, how they end, and what they are worth."""
    lines = []
    if row := found.get("leftovers"):
        left = sum(len(things) for things in row["left"].values()) + len(row["meetings"])
        shown = ", ".join(f"{count} {outcome}" for outcome, count in row["outcomes"].items())
        lines.append(
            f"- {row['trials']} trials of two ranks ({shown}): {left} processes, ports, segments or files left."
        )
    if row := found.get("endings"):
        shown = ", ".join(f"{count} {outcome}" for outcome, count in row["outcomes"].items())
        lines.append(f"- {row['runs']} runs of two ranks to their end: {shown}.")
    speed = {name.removeprefix("speed of "): row for name, row in found.items() if name.startswith("speed of ")}
    if speed:
        lines += ["", "| Example | Ranks against threads | Two equal processes | Tuned | Budget |"]
        lines.append("|---|---|---|---|---|")
    for name, row in speed.items():
        cells = (_interval(row["against one process"]), _interval(row["of two equal processes"]))
        lines.append(f"| {name} | {' | '.join(cells)} | {row['tuned']['summary']} | {row.get('budget', 'not told')} |")
    return lines


def _interval(row: dict[str, Any]) -> str:
    if "failure" in row:
        return str(row["failure"])
    return f"{row['speedup']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def scaling(found: dict[str, Any]) -> list[str]:
    """Return published run times beside what fits on some of them predict for the others."""
    lines = ["| Fitted on | Ranks | Measured | Predicted | Interval | Error |", "|---|---|---|---|---|---|"]
    for fit in found["fits"]:
        for row in fit["predictions"]:
            lines.append(
                f"| {', '.join(map(str, fit['fitted_on']))} | {row['ranks']} | {row['measured']:.0f} s "
                f"| {row['predicted']:.0f} s | {row['low']:.0f} to {row['high']:.0f} s | {row['error']:+.1%} |"
            )
    return lines
