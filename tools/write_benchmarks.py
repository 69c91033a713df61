"""Write the tables of checks and studies in benchmarks/README.md: `python tools/write_benchmarks.py`."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.catalogue import BENCHMARKS, Kind
from benchmarks.run import show_minutes

PAGE = Path(__file__).parents[1] / "benchmarks" / "README.md"


def table(kind: Kind) -> str:
    """Return the table of all checks, or of all studies."""
    lines = ["| Name | What it shows | Needs | Takes |", "|---|---|---|---|"]
    for one in BENCHMARKS:
        if one.kind == kind:
            source = f"{one.module.replace('.', '/')}.py"
            lines.append(f"| [{one.name}]({source}) | {one.help} | {one.needs} | {show_minutes(one)} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """Return the README with today's tables between its marks."""
    for kind in ("check", "study"):
        text = re.sub(
            rf"(<!-- table: {kind} -->\n).*?(\n<!-- end -->)",
            lambda marks, kind=kind: marks[1] + table(kind) + marks[2],  # type: ignore[misc]  # mypy does not type defaults of a lambda
            text,
            flags=re.DOTALL,
        )
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
