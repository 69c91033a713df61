"""The same model with 50 and with 50,000 planned steps: does each get what the table says is best for it?

    python benchmarks/break_even.py

Tunes benchmarks/workloads/small_resnet.py both ways; results go to benchmarks/results/break_even.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks" / "tables"))

from measure import WORKLOADS  # noqa: E402
from replay import Facts  # noqa: E402
from table import TABLES, read_table  # noqa: E402

from autoaccel.records.settings import describe_change  # noqa: E402

NAME = "small_resnet"
RESULTS = ROOT / "benchmarks" / "results" / "break_even.json"
ENTRIES = {"build_short": 50, "build_long": 50_000}
MAX_DROP = "100%"  # after 50 steps the metric is still luck; every point of the table is allowed


def tune(entry: str) -> dict[str, Any]:
    """Return the recipe."""
    model, space = WORKLOADS[NAME]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        command = [sys.executable, "-m", "autoaccel", "tune", f"{model}:{entry}", "--budget", "10m", "--runs", "200"]
        command += ["--max-drop", MAX_DROP]
        command += ["--space", f"benchmarks/tables/{space}", "--output", str(folder)]
        subprocess.run(command, cwd=ROOT, check=False)
        recipe: dict[str, Any] = json.loads((folder / "recipe.json").read_text())
        return recipe


def main() -> None:
    """Tune both; write what came of it."""
    facts = Facts(read_table(TABLES / f"{NAME}.jsonl.gz"))
    found = {}
    for entry, steps in ENTRIES.items():
        recipe = tune(entry)
        totals = {key: facts.total_seconds(facts.settings[key], steps) for key in facts.visits}
        best = min(totals, key=lambda key: totals[key])
        picked = {**facts.table.head.own, **recipe["settings"]}
        key = next(key for key, settings in facts.settings.items() if settings == picked)
        found[str(steps)] = {
            "picked": describe_change(picked, facts.table.head.own),
            "table's best": describe_change(facts.settings[best], facts.table.head.own),
            "regret_by_the_table": totals[key] / totals[best] - 1,
            "compiled": recipe["settings"]["compile.mode"] != "off",
            "table_compiles": facts.settings[best]["compile.mode"] != "off",
            "break_even_steps": recipe["projection"]["break_even_steps"],
            "seconds": recipe["search"]["spent_seconds"],
        }
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
