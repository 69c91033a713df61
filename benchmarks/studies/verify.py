"""Can `autoaccel verify` fail? True claims and planted false ones, each verified as a user would.

    python -m benchmarks.studies.verify [--claims 30] [--budget 60s]

A small network is tuned once, with two knobs open: what that claims is true, or was within the hour. The false claim is
the same recipe with a setting that does nothing in place of its own, and a speed-up of 1.20 (1.10 to 1.31). Each
is verified so many times, in turns: a false one must never hold, nine of ten true ones must. Interrupted, it
goes on where it was. Results go to benchmarks/results/verify.jsonl; 30 of each take about half an hour.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row, latest, read_rows, runs_folder, to_measure

MODEL = ROOT / "benchmarks" / "workloads" / "two_convolutions.py"
CODE = ("autoaccel", "benchmarks/studies/verify.py", "benchmarks/workloads/two_convolutions.py")
SPACE = """
title = "what pays for convolutions"
[knobs]
"precision.autocast" = ["off", "bfloat16"]
"layout.channels_last" = "all"
"""
DOES_NOTHING = {"precision.flush_denormals": True}  # where no number of a training is that small
FALSE_CLAIM = {"speedup": 1.2, "low": 1.1, "high": 1.31, "verdict": "faster", "drift": 0.0}
MIN_TRUE = 0.9  # of the true claims must hold


def autoaccel(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run one command, showing its progress."""
    print("$ autoaccel", *arguments, flush=True)
    command = [sys.executable, "-m", "autoaccel", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)


def make_recipes(folder: Path) -> dict[str, Path]:
    """Return the recipes of the true and of the false claim, made unless they are there.

    Raises:
        SystemExit: If nothing that can be claimed pays on this machine.
    """
    found = {"true": folder / "tuned" / "recipe.json", "false": folder / "false.json"}
    if not found["true"].exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "space.toml").write_text(SPACE)
        space = ("--space", folder / "space.toml", "--max-drop", "10%", "--budget", "8m")
        autoaccel("tune", MODEL, *space, "--output", found["true"].parent)
    recipe = json.loads(found["true"].read_text())
    if recipe["settings"] == recipe["baseline"]["settings"]:
        raise SystemExit(f"no true claim to verify: {recipe['summary']} Start again when nothing else runs here.")
    recipe["settings"] = recipe["baseline"]["settings"] | DOES_NOTHING
    recipe["comparison"] |= FALSE_CLAIM
    found["false"].write_text(json.dumps(recipe))
    return found


def verify(kind: str, recipe: Path, budget: str) -> dict[str, Any]:
    """Return what came of one claim.

    Raises:
        RuntimeError: If it could not be measured.
    """
    start = time.perf_counter()
    done = autoaccel("verify", recipe, MODEL, "--pairs", "3", "--budget", budget, "--json")
    if not done.stdout:
        raise RuntimeError(f"verify ended with exit code {done.returncode} and said nothing")
    found: dict[str, Any] = json.loads(done.stdout)
    seconds = time.perf_counter() - start
    return {"claim": kind, **found, "exit_code": done.returncode, "seconds": seconds, "budget": budget}


def judge(found: dict[str, dict[str, Any]]) -> tuple[bool, str]:
    """Return whether no false claim held and enough true ones did, and in words what became of each kind."""
    kinds = {
        kind: Counter(row["verdict"] for row in found.values() if row["claim"] == kind) for kind in ("true", "false")
    }
    coded = all((row["exit_code"] == 0) == (row["verdict"] == "holds") for row in found.values())
    passed = coded and not kinds["false"]["holds"] and kinds["true"]["holds"] >= MIN_TRUE * kinds["true"].total()
    words = [
        f"{kind} claims: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        for kind, counts in kinds.items()
    ]
    return passed, "; ".join(words)


def main(arguments: Sequence[str]) -> int:
    """Verify what was not yet verified; return 1 if a false claim held, or too few true ones did."""
    parser = make_parser(__doc__)
    parser.add_argument("--claims", type=int, default=30, help="of each kind")
    parser.add_argument("--budget", default="60s", help="for each")
    parsed = parser.parse_args(arguments)
    names = [f"{kind} {number:02}" for number in range(1, parsed.claims + 1) for kind in ("true", "false")]
    recipes = make_recipes(runs_folder("verify"))
    for name in to_measure("verify", names):
        kind = name.split()[0]
        try:
            add_row("verify", name, verify(kind, recipes[kind], parsed.budget), code=CODE)
        except RuntimeError as error:
            add_row("verify", name, {}, code=CODE, status="failed", reason=str(error))
    rows = latest(read_rows("verify"))
    passed, words = judge({name: rows[name].found for name in names if name in rows})
    print(words)
    return 0 if passed and all(name in rows for name in names) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
