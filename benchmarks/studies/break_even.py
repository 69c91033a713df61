"""The same model with 50 and with 50,000 planned steps: does each get what the table says is best for it?

    python -m benchmarks.studies.break_even [NAME ...]

Tunes two models both ways: small_resnet, of which the table says that compiling gains next to nothing even in 50,000
steps, and wide_mlp, whose steps it makes a fifth faster. Results go to benchmarks/results/break_even.jsonl.
What is there of today's code is not measured again unless it is named.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autoaccel.records.settings import describe_change
from autoaccel.space.knobs import is_on
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.replay import Facts
from benchmarks.harness.rows import ROOT, add_row, to_measure
from benchmarks.harness.table import TABLES, read_table
from benchmarks.studies.tables.measure import WORKLOADS

NAMES = ("small_resnet", "wide_mlp")
CODE = ("autoaccel", "benchmarks/studies/break_even.py", "benchmarks/workloads")
ENTRIES = {"build_short": 50, "build_long": 50_000}
MAX_DROP = "100%"  # after 50 steps the metric is still luck; every point of the table is allowed


def tune(name: str, entry: str) -> dict[str, Any]:
    """Return the recipe."""
    model, space = WORKLOADS[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        command = [
            sys.executable,
            "-m",
            "autoaccel",
            "tune",
            f"{model}:{entry}",
            "--budget",
            "10m",
            "--trainings",
            "200",
        ]
        command += ["--max-drop", MAX_DROP]
        command += ["--space", f"benchmarks/spaces/{space}", "--output", str(folder)]
        subprocess.run(command, cwd=ROOT, check=False)
        recipe: dict[str, Any] = json.loads((folder / "recipe.json").read_text())
        return recipe


def measure(name: str) -> dict[str, Any]:
    """Return what each length of one model's training gets."""
    facts = Facts(read_table(TABLES / f"{name}.jsonl.gz"))
    found = {}
    for entry, steps in ENTRIES.items():
        recipe = tune(name, entry)
        totals = {key: facts.total_seconds(facts.settings[key], steps) for key in facts.visits}
        best = min(totals, key=lambda key: totals[key])
        # The recipe names every knob; the table knows some of them.
        picked = {
            name: recipe["settings"].get(name, value) for name, value in facts.table.head.baseline_settings.items()
        }
        key = next(key for key, settings in facts.settings.items() if settings == picked)
        found[str(steps)] = {
            "picked": describe_change(picked, facts.table.head.baseline_settings),
            "table's best": describe_change(facts.settings[best], facts.table.head.baseline_settings),
            "regret_by_the_table": totals[key] / totals[best] - 1,
            "compiled": is_on("compile.mode", recipe["settings"]),
            "table_compiles": is_on("compile.mode", facts.settings[best]),
            "break_even_steps": recipe["projection"]["break_even_steps"],
            "seconds": recipe["search"]["spent_seconds"],
        }
    return found


def main(arguments: Sequence[str]) -> None:
    """Measure these models, or both."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parsed = parser.parse_args(arguments)
    for name in parsed.names or to_measure("break_even", NAMES):
        found = measure(name)
        add_row("break_even", name, found, code=CODE)
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
