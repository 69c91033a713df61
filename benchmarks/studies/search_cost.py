"""What a tuning run spends its time on, and what the tuner itself costs beside the measurement.

    python -m benchmarks.studies.search_cost [--label NAME] [--package FOLDER] [--budget 5m]

Tunes the digits network on a terminal of its own, with the live picture, and adds one row to
benchmarks/results/search_cost.jsonl: seconds in measured steps, warm-up, compilation, start-up and everything else;
when the speed-up was first proven; the tuner's own share of a core, in the seconds in which it only waits for
measurements, and over its whole search and proof. `--package`
names a checkout of another version to compare with; one that does not say what it spent its time on is read from its
trials.
"""

from __future__ import annotations

import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import psutil

from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row, digest, provenance, read_rows

CODE = ("autoaccel", "benchmarks/studies/search_cost.py", "examples/digits_cnn.py")


@dataclass
class Watched:
    """The tuner's own processor seconds in its search and proof, second by second."""

    measuring: list[float] = field(default_factory=list)  # no process was started or ended
    between: list[float] = field(default_factory=list)  # a trial ended, the next was chosen and started


def watch(folder: Path, process: psutil.Process) -> Watched:
    """Watch the tuner until it has written its recipe."""
    found = Watched()
    last = None
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE and not (folder / "recipe.json").exists():
        time.sleep(1.0)
        try:
            times, children = process.cpu_times(), {child.pid for child in process.children(recursive=True)}
        except psutil.NoSuchProcess:
            break
        now = times.user + times.system
        if last is not None and (folder / "run.json").exists():
            (found.measuring if children == last[1] else found.between).append(now - last[0])
        last = now, children
    return found


def tune(package: Path, folder: Path, budget: str) -> tuple[float, Watched]:
    """Tune on a terminal of its own; return how long it took and what the tuner itself took."""
    command = [sys.executable, "-m", "autoaccel", "tune", str(ROOT / "examples" / "digits_cnn.py")]
    command += ["--budget", budget, "--output", str(folder)]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(package), "TERM": "xterm-256color", "COLUMNS": "110", "LINES": "40"}
    start = time.perf_counter()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=package, env=environment)
    os.close(theirs)
    threading.Thread(target=_drain, args=(ours,), daemon=True).start()
    watched = watch(folder, psutil.Process(process.pid))
    process.wait()
    return time.perf_counter() - start, watched


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 65536):
            pass
    except OSError:
        return


def spent_on(folder: Path, recipe: dict[str, Any]) -> dict[str, float]:
    """Return what the time was spent on; of a version that does not say, as far as its trials tell."""
    if "spent_on" in recipe["search"]:
        found: dict[str, float] = recipe["search"]["spent_on"]
        return found
    spent = {"measured steps": 0.0, "warm-up steps": 0.0, "compilation and first steps": 0.0, "start-up": 0.0}
    for line in (folder / "trials.jsonl").read_text().splitlines():
        outcome = json.loads(line)["outcome"]
        if "turns" not in outcome:
            continue
        turns = [sum(turn["step_seconds"]) for turn in outcome["turns"]]
        spent["measured steps"] += 2 * sum(turns)  # the baseline's turns beside them are as long
        settled = statistics.median(outcome["warmup_step_seconds"][-5:])
        slower = sum(max(0.0, seconds - settled) for seconds in outcome["warmup_step_seconds"])
        spent["compilation and first steps"] += slower
        spent["warm-up steps"] += sum(outcome["warmup_step_seconds"]) - slower
        spent["start-up"] += outcome["startup_seconds"]
    pairs, turns_taken = recipe["comparison"]["process_pairs"], recipe["comparison"]["turns"]
    spent["start-up"] += 2 * pairs * recipe["baseline"]["startup_seconds"]
    steps = recipe["baseline"]["step_seconds"] + recipe["projection"]["step_seconds"]
    spent["measured steps"] += turns_taken * 6 * steps
    spent["everything else"] = recipe["search"]["spent_seconds"] - sum(spent.values())
    return spent


def main() -> None:
    """Tune once; add the row and print the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--label", default="this version")
    parser.add_argument("--package", type=Path, default=ROOT)
    parser.add_argument("--budget", default="5m")
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        seconds, watched = tune(parsed.package.resolve(), folder, parsed.budget)
        recipe = json.loads((folder / "recipe.json").read_text())
        row = {
            "seconds": seconds,
            "spent_on": spent_on(folder, recipe),
            "trials": recipe["search"]["trials"],
            "proven_after_seconds": recipe["search"].get("proven_after_seconds"),
            "speedup": recipe["comparison"]["speedup"],
            "low": recipe["comparison"]["low"],
            "tuner_share_while_measuring": statistics.fmean(watched.measuring),
            "tuner_share_of_search_and_proof": statistics.fmean(watched.measuring + watched.between),
            "cpu": recipe["machine"]["cpu"]["model"],
        }
    code = {path: digest(path, parsed.package.resolve()) for path in CODE}
    made = msgspec.structs.replace(provenance(CODE), code=code)
    add_row("search_cost", parsed.label, row, made=made)
    for known in read_rows("search_cost"):
        if (one := known.found) and known.status == "measured":
            total = sum(one["spent_on"].values())
            parts = ", ".join(f"{name} {value / total:.0%}" for name, value in one["spent_on"].items())
            shares = (f"proven after {one['proven_after_seconds']}", parts)
            tuner = f"tuner {one['tuner_share_of_search_and_proof']:.2%} of a core"
            print(f"{known.made.date[:10]} {known.name}: {one['seconds']:.0f} s", *shares, tuner, sep="; ")


if __name__ == "__main__":
    main()
