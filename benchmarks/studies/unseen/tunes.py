"""`autoaccel tune` as a user types it, and what is kept of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from autoaccel.records.settings import changed
from benchmarks.harness.minutes import TimeIsUp
from benchmarks.harness.rows import ROOT

_KEPT = ("summary", "comparison", "accuracy", "projection", "search", "open_proof")
"""Parts of a recipe: what is claimed, the evidence for it, when it was proven, what each stage was planned to take and
took."""


def tune(path: Path, output: Path, seconds: float | None, inside: Path = ROOT) -> dict[str, Any]:
    """Return what came of a tune.

    Args:
        path: Of the workload.
        output: Where the run may lie; what is there, of one that was interrupted, is removed.
        seconds: Its budget; None: it is not told any, as by a user who has no wish.
        inside: Folder in which it is typed, with the workload somewhere below it.
    """
    shutil.rmtree(output, ignore_errors=True)
    folder = output.relative_to(inside) if output.is_relative_to(inside) else output  # rows keep what is said
    command = [sys.executable, "-m", "autoaccel", "tune", str(path.relative_to(inside)), "--output", str(folder)]
    if seconds is not None:
        command += ["--budget", f"{seconds:.0f}s"]
    print("$ autoaccel", *command[3:], flush=True)
    start, said = time.perf_counter(), ""
    with subprocess.Popen(command, cwd=inside, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None  # it is a pipe
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                words = line.strip()
                # An error says what it is first, and then where it was.
                said = said if said.startswith("autoaccel:") else words or said
        except TimeIsUp:
            process.terminate()  # nobody else tells it that it is over; it ends its own workers
            raise
    wall_seconds = time.perf_counter() - start
    found = {"exit_code": process.returncode, "wall_seconds": wall_seconds, "said": said, "choice": {"settings": {}}}
    if (output / "recipe.json").exists():
        recipe = json.loads((output / "recipe.json").read_text())
        found |= {**told_by(recipe), "said": recipe["summary"]}
    return found


def told_by(recipe: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a recipe."""
    baseline = recipe["baseline"]
    kept = {name: recipe[name] for name in _KEPT}
    kept["search"] = {name: value for name, value in recipe["search"].items() if name != "values"}  # long
    kept["own_step_seconds"] = baseline["step_seconds"]
    kept["planned_steps"] = recipe["projection"]["planned_steps"]
    kept["choice"] = {"settings": changed(recipe["settings"], baseline["settings"])}
    return kept
