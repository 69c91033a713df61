"""What the first run of a training takes that is tuned while it trains, beside the same loop in plain Python.

    python -m benchmarks.studies.first_runs.measure [NAME ...] [--cap SECONDS --around SECONDS] [--minutes N]

Each of the unseen trainings runs for at most 20 minutes within `with autoaccel.live():`, whose loop says how many steps
that is; nothing is remembered of an earlier run. Before and after it the same loop runs for three minutes without
autoaccel: by its mean step the plain run is projected. A row of benchmarks/results/first_runs.jsonl says how many times
as fast the run was, everything included, when faster settings were first in use, what share was saved of what the
settings at its end would have saved from the first step on, and whether what the run says of itself holds against the
clock outside. Nothing else should run meanwhile; half an hour each. `--cap` and `--around` try it in small, and add no
row.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autoaccel.records.base import decode
from autoaccel.records.live import LiveTried
from autoaccel.records.recipe import read_recipe
from autoaccel.records.settings import describe_change
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import MINUTES, ending_in_time
from benchmarks.harness.rows import ROOT, add_row, provenance, to_measure
from benchmarks.studies.unseen.suite import workloads

CODE = ("autoaccel", "benchmarks/studies/first_runs", "benchmarks/studies/unseen")
CAP_SECONDS, AROUND_SECONDS = 1200.0, 180.0
ENOUGH_SECONDS = 1700.0  # of the time that is left, to begin another training
_LAST_PARTS = 5  # of twenty, by which the settings at a run's end are judged
_TRAIN = "benchmarks.studies.first_runs.train"


def trained(path: Path, seconds: float, *more: str) -> dict[str, Any]:
    """Train in a process of its own; return what it took.

    Raises:
        subprocess.CalledProcessError: If it fails.
    """
    command = [sys.executable, "-m", _TRAIN, str(path), "--seconds", str(seconds), *more]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(name: str, path: Path, cap: float, around: float) -> dict[str, Any]:
    """Return what the first run of a training takes.

    Args:
        name: Of the training.
        path: Of its file.
        cap: Seconds that the plain run takes.
        around: Seconds for which it is timed before and after.
    """
    folder = ROOT / "autoaccel-runs" / "first-runs" / name
    for earlier in folder.glob("*") if folder.is_dir() else ():
        earlier.unlink()
    before = trained(path, around)
    planned = max(1, round(cap / before["step_seconds"]))
    # One that becomes slower is not waited for to its last step.
    live = trained(path, 1.5 * cap, "--steps", str(planned), "--live", str(folder))
    after = trained(path, around)
    return {**scored(before, live, after), **left_in(folder), "said": live["said"], "parts": live["parts"]}


def scored(before: dict[str, Any], live: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return how many times as fast a run was as in plain Python, and what share was saved of what could be.

    Args:
        before: The plain run before it, as `train` tells of it.
        live: The run.
        after: The plain run after it.
    """
    steps, seconds = live["steps"], live["whole_seconds"]
    around = [before["step_seconds"], after["step_seconds"]]
    plain = statistics.fmean(around)
    last = statistics.fmean(live["parts"][-_LAST_PARTS:])
    saved, possible = steps * plain - seconds, steps * (plain - last)
    return {
        "steps": steps,
        "seconds": seconds,
        "plain_step_seconds": around,
        "last_step_seconds": last,
        "first_run": steps * plain / seconds,
        "first_run_interval": [steps * one / seconds for one in sorted(around)],
        "saved_share": saved / possible if possible > 0.02 * steps * plain else None,
        "at_its_end": plain / last,
    }


def left_in(folder: Path) -> dict[str, Any]:
    """Return what the run has left there: what it claims, and when faster settings were first in use."""
    if not (folder / "recipe.json").exists():
        return {"settings": "your own settings", "claim": None, "first_in_use_seconds": None}
    recipe = read_recipe(folder / "recipe.json")
    tried = [decode(line, LiveTried) for line in (folder / "live.jsonl").read_bytes().splitlines()]
    kept = [one.after_seconds for one in tried if one.became == "kept"]
    return {
        "settings": describe_change(recipe.settings, recipe.baseline.settings),
        "claim": [recipe.comparison.speedup, recipe.comparison.low, recipe.comparison.high],
        "first_in_use_seconds": kept[0] if kept else None,
    }


def main(arguments: Sequence[str]) -> int:
    """Measure what is asked for and was not measured with today's code; return the exit code."""
    known = workloads()
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--cap", type=float, default=CAP_SECONDS, help="seconds of a run; another number adds no row")
    parser.add_argument("--around", type=float, default=AROUND_SECONDS, help="of plain Python, before and after")
    parser.add_argument("--minutes", **MINUTES)
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - known.keys()):
        parser.error(f"there is no training {', '.join(unknown)}; there are {', '.join(known)}")
    names, adds_rows = parsed.names or list(known), (parsed.cap, parsed.around) == (CAP_SECONDS, AROUND_SECONDS)
    with ending_in_time(parsed.minutes) as seconds_left:
        for name in to_measure("first_runs", names) if adds_rows else names:
            if adds_rows and seconds_left() < ENOUGH_SECONDS:
                print(f"{name}: left for another time", flush=True)
                continue
            made = provenance(CODE)
            found = measure(name, known[name], parsed.cap, parsed.around)
            if adds_rows:
                add_row("first_runs", name, found, made=made)
            low, high = found["first_run_interval"]
            print(f"{name}: {found['first_run']:.2f}x plain ({low:.2f} to {high:.2f}); {found['said']}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
