"""Tune the examples, measure each claim again, train with each recipe; write what came of it as data.

    python -m benchmarks.studies.examples [NAME ...]

Runs go to autoaccel-runs/examples; one that is complete is not repeated while the code is the same. Takes
about half an hour for all. Results go to benchmarks/results/examples.jsonl, and the page of results is written anew.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row, runs_folder, to_measure
from benchmarks.page.write import main as write_page

CODE = ("autoaccel", "benchmarks/studies/examples.py", "examples")
BUDGETS = {"digits_cnn": "5m", "image_pipeline": "6m", "char_gpt": "10m", "tabular_mlp": "10m"}


def autoaccel(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run one command in the root of the checkout, showing its progress."""
    command = [sys.executable, "-m", "autoaccel", *map(str, arguments)]
    print("$ autoaccel", *arguments, flush=True)
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def measure(name: str) -> dict[str, Any]:
    """Return what tune, verify and run say of one example."""
    model, folder = f"examples/{name}.py", runs_folder("examples") / name
    if not (folder / "recipe.json").exists():
        autoaccel("tune", model, "--budget", BUDGETS[name], "--output", folder)
    recipe = json.loads((folder / "recipe.json").read_text())
    found: dict[str, Any] = {
        "commands": [f"autoaccel tune {model} --budget {BUDGETS[name]}"],
        "exit_code": int(recipe["settings"] == recipe["baseline"]["settings"]),
        **{key: recipe[key] for key in ("summary", "settings", "baseline", "comparison", "constraint", "accuracy")},
        **{key: recipe[key] for key in ("projection", "search", "versions")},
        "cpu": recipe["machine"]["cpu"]["model"],
        "usable_cores": len(recipe["machine"]["limits"]["affinity"]),
    }
    if found["exit_code"] == 0:
        verified = autoaccel("verify", folder / "recipe.json", model, "--json")
        trained = autoaccel("run", folder / "recipe.json", model)
        found["verified"] = {**json.loads(verified.stdout), "exit_code": verified.returncode}
        found["trained"] = trained.stdout.splitlines()[-2:]
        found["commands"] += ["autoaccel verify RECIPE MODEL", "autoaccel run RECIPE MODEL"]
    return found


def main(arguments: Sequence[str]) -> None:
    """Measure these examples, or all that were not measured with today's code."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BUDGETS))
    parsed = parser.parse_args(arguments)
    for name in parsed.names or to_measure("examples", BUDGETS):
        add_row("examples", name, measure(name), code=CODE)
    write_page()


if __name__ == "__main__":
    main(sys.argv[1:])
