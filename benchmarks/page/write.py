"""Write benchmarks/results/README.md: one page of tables from the rows that are there; and docs/optuna.md's table.

    python -m benchmarks.page.write

The page marks each row that is older than the code it speaks of. What that code was when the page was written is kept
in benchmarks/results/code.json, so that the same rows and the same file give the same page, whatever has changed since.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from autoaccel.records.base import Record, write_json, write_text
from benchmarks.harness.rows import (
    RESULTS,
    ROOT,
    UNKNOWN,
    Provenance,
    Row,
    digest,
    is_stale,
    latest,
    provenance,
    read_rows,
)
from benchmarks.page.searches import samplers_over_tables
from benchmarks.page.sections import SECTIONS, Section, command_of

SAMPLERS_PAGE = ROOT / "docs" / "optuna.md"


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
        "Each table is written from the rows beside it, by `benchmarks/page/write.py`; what they mean is in",
        "[../README.md](../README.md). Rows are only ever added: what was measured again stays, as an earlier row, and",
        "so does what failed. *Older than the code* is a row whose code has changed since; each row names that code,",
        f"files or folders, with a digest. Of the {len(counted)} rows that count, {stale} are older than the code of",
        f"{then.date[:10]} ({commit_of(then.commit, then.changed)}). `make results` measures them again.",
    ]
    for name, section in SECTIONS.items():
        if rows := results.get(name):
            command = section.command or command_of(name)
            lines += ["", f"## {section.title}", "", f"`{command}`, data in [{name}.jsonl]({name}.jsonl).", ""]
            lines += write_section(section, rows, then)
    return "\n".join(lines) + "\n"


def write_section(section: Section, rows: Sequence[Row], then: CodeThen) -> list[str]:
    """Return the rows that count, where they come from, and what there was besides."""
    last = latest(rows)
    lines = section.write({name: row.found for name, row in last.items()})
    lines += ["", *origins(list(last.values()), then)]
    earlier = [row for row in rows if row.status == "measured" and row is not last[row.name]]
    if earlier:
        lines += ["", f"<details><summary>Earlier rows: {len(earlier)}</summary>", ""]
        if section.earlier:
            lines += [*section.write({title_of(row, earlier): row.found for row in earlier}), ""]
        lines += [*origins(earlier, then), "", "</details>"]
    for row in rows:
        if row.status != "measured":
            where = f"{row.made.date[:10]}, {commit_of(row.made.commit, row.made.changed)}, {row.made.cpu}"
            lines += ["", f"{row.status.capitalize()}: {row.name} ({where}): {row.reason}."]
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


def with_samplers(text: str, rows: Sequence[Row]) -> str:
    """Return the text of docs/optuna.md with the table of samplers between its marks; as it was if no row is there."""
    found = {name: row.found for name, row in latest(rows).items()}
    table = "\n".join(samplers_over_tables(found))
    marked = r"(<!-- table: samplers -->\n).*?(\n<!-- end -->)"
    return re.sub(marked, lambda marks: marks[1] + table + marks[2], text, flags=re.DOTALL) if found else text


def read_results() -> dict[str, list[Row]]:
    """Return the rows of every section that has some."""
    return {name: rows for name in SECTIONS if (rows := read_rows(name))}


def main() -> None:
    """Write the page, and what it knows of the code."""
    results = read_results()
    then = take_code(results)
    write_json(RESULTS / "code.json", then)
    write_text(RESULTS / "README.md", render(results, then))
    write_text(SAMPLERS_PAGE, with_samplers(SAMPLERS_PAGE.read_text("utf-8"), results.get("samplers", ())))


if __name__ == "__main__":
    main()
