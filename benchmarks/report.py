"""Write benchmarks/results/README.md: one page of tables from the rows that are there.

    python benchmarks/report.py

The page marks each row that is older than the code it speaks of. What that code was when the page was written is kept
in benchmarks/results/code.json, so that the same rows and the same file give the same page, whatever has changed since.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import report_advice as advice
import report_levers as levers
import report_ranks as several
import report_searches as searches
from report_gpu import on_gpu
from report_rounding import rounding
from report_unseen import unseen
from rows import RESULTS, UNKNOWN, Provenance, Row, digest, is_stale, latest, provenance, read_rows

from autoaccel.records.base import Record, write_json, write_text

Found = dict[str, Any]
"""Name of a row -> what was found."""


def most_share(count: int, of: int) -> float:
    """Return the largest share under which so few of so many still come about in one of twenty series.

    The upper end of Clopper and Pearson's one-sided 95 % interval (1934), by bisection.
    """
    low, high = count / of, 1.0
    for _ in range(50):
        share = (low + high) / 2
        chance = math.fsum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(count + 1))
        low, high = (share, high) if chance > 0.05 else (low, share)
    return high


def false_wins(found: dict[str, Any]) -> list[str]:
    """Return how often the baseline was called faster than itself."""
    rows = {**found, **_live_together([row for kind, row in found.items() if kind.startswith("live: ")])}
    lines = ["| Comparisons | Called faster | In truth at most (95 %) | Outcomes |", "|---|---|---|---|"]
    for kind, row in rows.items():
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in row["outcomes"].items())
        most = most_share(round(row["false_win_share"] * row["comparisons"]), row["comparisons"])
        lines.append(f"| {row['comparisons']:,} {kind} | {row['false_win_share']:.2%} | {most:.2%} | {outcomes} |")
    return lines


def _live_together(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what rows of several workloads come to together; nothing if there are not several."""
    if len(rows) < 2:
        return {}
    outcomes: Counter[str] = Counter()
    for row in rows:
        outcomes.update(row["outcomes"])
    share = outcomes["proven"] / outcomes.total()
    return {"live, together": {"comparisons": outcomes.total(), "false_win_share": share, "outcomes": dict(outcomes)}}


def scatter(found: dict[str, Any]) -> list[str]:
    """Return what the scatter of pairs was fitted to, and how often intervals that build on it miss."""
    lines = ["| Left out of the fit | Fit of the others | Missed, as recorded | Missed, on a worse machine |"]
    lines.append("|---|---|---|---|")
    for name, row in found.items():
        if "missed" in row:
            fit, missed = row["fit"], row["missed"]["used"]
            words = f"{fit['deviation']:.3f}, {fit['degrees']:g} degrees"
            lines.append(
                f"| {name.partition(': ')[2]} | {words} | {missed['as recorded']:.1%} | {missed['worse']:.1%} |"
            )
    one = found["fit"]
    used = f"{one['used']['deviation']:g} with {one['used']['degrees']:g}"
    return [*lines, "", f"All together: {one['deviation']:.3f} with {one['degrees']:g} degrees; used: {used}."]


def independence(found: dict[str, Any]) -> list[str]:
    """Return what pairs scatter by with a fresh baseline each and with one that is kept, and what that one adds."""
    columns = ["Workload", "Step", "Scatter, fresh baselines", "Scatter, one kept", "What that one adds to all"]
    columns += ["Three pairs are wrong by, fresh", "kept", "Seconds of a pair, fresh", "kept"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for name, row in found.items():
        wrong, seconds = row["error_of_three"], row["seconds_of_pair"]
        lines.append(
            f"| {name} | {row['step_seconds']:.3g} s | {row['fresh_deviation']:.3f} | {row['kept_deviation']:.3f} "
            f"| {row['kept_luck']:.3f} | {wrong['fresh']:.3f} | {wrong['kept']:.3f} "
            f"| {seconds['fresh']:.1f} | {seconds['kept']:.1f} |"
        )
    return [*lines, "", "Standard deviations of the logarithm of the speed-up."]


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


def verifications(found: dict[str, Any]) -> list[str]:
    """Return what `verify` said of true claims and of planted false ones."""
    lines = [
        "| Claims | Number | Hold | Do not hold | Inconclusive | Pairs, median | Seconds, median |",
        f"|{'---|' * 7}",
    ]
    for kind in ("true", "false"):
        rows = [row for row in found.values() if row["claim"] == kind]
        if rows:
            counts = [
                sum(row["verdict"] == name for row in rows) for name in ("holds", "does not hold", "inconclusive")
            ]
            pairs = statistics.median((row["measured"] or {"process_pairs": 0})["process_pairs"] for row in rows)
            seconds = statistics.median(row["seconds"] for row in rows)
            told = " | ".join(map(str, counts))
            lines.append(f"| {kind} | {len(rows)} | {told} | {pairs:.0f} | {seconds:.0f} |")
    return lines


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


def examples(found: dict[str, Any]) -> list[str]:
    """Return what the examples came to."""
    lines = [
        "| Example | Knobs | Exit code | Changed | Speed-up claimed | Measured again | Tuned in |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in found.items():
        own = row["baseline"]["settings"]
        change = ", ".join(f"{knob} {value}" for knob, value in row["settings"].items() if value != own[knob])
        claimed, measured = row["comparison"], row.get("verified", {}).get("measured")
        seconds = row["search"]["spent_seconds"]
        if not measured:
            lines.append(f"| {name} | {len(row['settings'])} | {row['exit_code']} | none | | | {seconds:.0f} s |")
            continue
        lines.append(
            f"| {name} | {len(row['settings'])} | {row['exit_code']} | {change} "
            f"| {claimed['speedup']:.2f} ({claimed['low']:.2f} to {claimed['high']:.2f}) "
            f"| {measured['speedup']:.2f} ({measured['low']:.2f} to {measured['high']:.2f}) | {seconds:.0f} s |"
        )
    return [*lines, "", *(f"- {name}: {row['summary']}" for name, row in found.items())]


def tables(found: dict[str, Any]) -> list[str]:
    """Return what was measured of each space."""
    lines = ["| Workload | Settings | Visits | Rounds | Measured for |", "|---|---|---|---|---|"]
    for name, row in found.items():
        lines.append(
            f"| {name} | {row['settings']} | {row['visits']:,} | {row['rounds']} | {row['seconds'] / 3600:.1f} h |"
        )
    return lines


def only(write: Callable[[Found], list[str]]) -> Callable[[Found], list[str]]:
    """Return what writes the table of a result that is one row."""
    return lambda found: [line for row in found.values() for line in write(row)]


class Section(Record, frozen=True):
    """One result on the page."""

    title: str
    command: str
    write: Callable[[Found], list[str]]
    earlier: bool = True
    """Whether rows that were measured again are shown as a table; else they are listed, and the data is in the file."""


SECTIONS = {
    "examples": Section("What the examples came to", "make examples", examples),
    "tables": Section("Tables: every setting of a space", "make tables", tables),
    "simulation": Section("Searches replayed on the tables", "make simulate", searches.simulation),
    "simulated_machines": Section(
        "Searches on models of recorded machines", "make simulate-machines", searches.simulated_machines
    ),
    "live": Section("Live, in the same time: projected speed-up of the planned run", "make live", searches.live),
    "live_rescored": Section(
        "The same picks, with a first compilation and with a warm one",
        "python benchmarks/live.py --rescore",
        searches.rescored,
    ),
    "unseen": Section("Trainings never seen before, ten minutes each", "make unseen", unseen, False),
    "false_wins": Section("The baseline against itself", "make false-wins", false_wins),
    "scatter": Section("How pairs of processes scatter, and whether intervals hold", "make scatter", scatter),
    "independence": Section("Pairs whose baseline stays alive", "make independence", independence),
    "claims": Section("Claims, and what was measured later", "make claims", claims),
    "verify": Section("Claims verified: true ones and planted false ones", "make check-verify", verifications, False),
    "rounding": Section("Rounding that was planted", "make rounding", rounding, False),
    "search_cost": Section("What a run spends its time on", "make search-cost", search_cost),
    "neighbour": Section("Beside a neighbour that hogs all cores in bursts", "make neighbour", only(neighbour)),
    "break_even": Section("The same model, short and long", "make break-even", break_even),
    "planted": Section("Problems that were planted", "make planted", advice.planted),
    "advice": Section("Advice on the examples", "make advice", advice.examples),
    "bounds": Section("What bounds are worth to a search", "make simulate", advice.bounds),
    "held": Section("Bounds beside what remedies won", "make held", advice.held),
    "remedies": Section("Bounds by measured rates, and gains on the same machine", "make remedies", advice.remedies),
    "pairs": Section("Every two knobs together", "make check-knobs", levers.pairs, False),
    "libraries": Section("OpenMP runtimes and allocators", "make libraries", levers.libraries),
    "pruning": Section("Sparsity against time and accuracy", "make pruning", levers.pruning),
    "nni": Section("NNI beside today's torch", "make check-nni", only(levers.nni)),
    "ipex": Section("Intel's extension", "make check-ipex", only(levers.ipex)),
    "versions": Section("Versions of torch, Python and the other dependencies", "make check-versions", levers.versions),
    "ranks": Section("Two ranks on two cores", "make check-ranks", several.ranks),
    "machines": Section("Two machines, one of whose ranks is killed", "make check-machines", only(several.machines)),
    "launchers": Section("The same recipe through every launcher", "make check-launchers", only(several.launchers)),
    "sharing": Section("Several workers of one study, one killed", "make check-sharing", only(several.sharing), False),
    "report_page": Section("Reports in a browser", "make check-report", only(advice.report_page), False),
    "scaling": Section("Published run times, predicted", "make scaling", only(several.scaling)),
    "gpu": Section("On a GPU, beside pytorch-autotune", "make gpu", on_gpu),
}
"""Result -> its section, in the order of the page."""


class CodeThen(Record, frozen=True):
    """The code when the page was written."""

    date: str
    commit: str
    changed: bool | None
    code: dict[str, str]
    """File or folder that a row speaks of -> digest."""


def take_code(results: Mapping[str, Sequence[Row]]) -> CodeThen:
    """Return what the code is now that any of the rows speaks of."""
    paths = sorted({path for rows in results.values() for row in rows for path in row.made.code})
    now = provenance(())
    return CodeThen(now.date, now.commit, now.changed, {path: digest(path) for path in paths})


def render(results: Mapping[str, Sequence[Row]], then: CodeThen) -> str:
    """Return the page."""
    counted = [row for rows in results.values() for row in latest(rows).values()]
    stale = sum(is_stale(row, then.code) for row in counted)
    lines = [
        "# Results",
        "",
        "Each table is written from the rows beside it, by `benchmarks/report.py`; what they mean is in",
        "[../README.md](../README.md). Rows are only ever added: what was measured again stays, as an earlier row, and",
        "so does what failed. *Older than the code* is a row whose code has changed since; each row names that code,",
        f"files or folders, with a digest. Of the {len(counted)} rows that count, {stale} are, by the code of",
        f"{then.date[:10]} ({commit_of(then.commit, then.changed)}). `make results` measures them again.",
    ]
    for name, section in SECTIONS.items():
        if rows := results.get(name):
            lines += ["", f"## {section.title}", "", f"`{section.command}`, data in [{name}.jsonl]({name}.jsonl).", ""]
            lines += write_section(section, rows, then)
    return "\n".join(lines) + "\n"


def write_section(section: Section, rows: Sequence[Row], then: CodeThen) -> list[str]:
    """Return the rows that count, where they come from, and what there was besides."""
    last = latest(rows)
    lines = section.write({name: row.found for name, row in last.items()})
    lines += ["", *origins(list(last.values()), then)]
    earlier = [row for row in rows if row.outcome == "measured" and row is not last[row.name]]
    if earlier:
        lines += ["", f"<details><summary>Earlier rows: {len(earlier)}</summary>", ""]
        if section.earlier:
            lines += [*section.write({title_of(row, earlier): row.found for row in earlier}), ""]
        lines += [*origins(earlier, then), "", "</details>"]
    for row in rows:
        if row.outcome != "measured":
            where = f"{row.made.date[:10]}, {commit_of(row.made.commit, row.made.changed)}, {row.made.cpu}"
            lines += ["", f"{row.outcome.capitalize()}: {row.name} ({where}): {row.reason}."]
    return lines


def title_of(row: Row, rows: Sequence[Row]) -> str:
    """Return a row's name with its date, and which of that day it was."""
    date = row.made.date[:10]
    same = [one for one in rows if (one.name, one.made.date[:10]) == (row.name, date)]
    number = next(index for index, one in enumerate(same, start=1) if one is row)
    return f"{row.name}, {date}" + (f", {number}" if len(same) > 1 else "")


def origins(rows: Sequence[Row], then: CodeThen) -> list[str]:
    """Return a table of which rows were measured by which code, where and when."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        mark = "**older than the code**" if is_stale(row, then.code) else "of this code"
        groups.setdefault((*where_from(row.made), mark), []).append(row.name)
    lines = ["| Rows | Date | Commit | Processor | torch | |", "|---|---|---|---|---|---|"]
    for key, names in groups.items():
        shown = "all" if len(groups) == 1 and len(names) > 1 else ", ".join(dict.fromkeys(names))
        lines.append(f"| {shown} | {' | '.join(key)} |")
    return lines


def where_from(made: Provenance) -> tuple[str, str, str, str]:
    """Return date, commit, processor and torch as the page shows them."""
    cores = f"{made.cores} cores, " if made.cores else ""
    return made.date[:10], commit_of(made.commit, made.changed), f"{cores}{made.cpu}", made.torch


def commit_of(commit: str, changed: bool | None) -> str:
    """Return a commit as the page shows it."""
    return commit if commit == UNKNOWN else f"`{commit[:7]}`" + (" and changes" if changed else "")


def read_results() -> dict[str, list[Row]]:
    """Return the rows of every section that has some."""
    return {name: rows for name in SECTIONS if (rows := read_rows(name))}


def main() -> None:
    """Write the page, and what it knows of the code."""
    results = read_results()
    then = take_code(results)
    write_json(RESULTS / "code.json", then)
    write_text(RESULTS / "README.md", render(results, then))


if __name__ == "__main__":
    main()
