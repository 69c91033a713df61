"""Ranks on this machine: what they leave behind, how they end, and whether they are worth it.

    python -m benchmarks.checks.ranks [leftovers] [endings] [speed]

leftovers: 100 distributed trials, a third of them killed at some moment; no process, listening port, shared-memory
segment or file may be left. endings: 200 runs of two ranks, half of them with an error in the last step; every good one
must be a result and every bad one a failure, whatever gloo does when a process ends. speed: one process with a thread
for each core against a process for each core with one thread, in fresh pairs of processes, on the examples, and what
`autoaccel tune` picks. Results go to benchmarks/results/ranks.jsonl.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from autoaccel.machine.detect import detect_machine
from autoaccel.records.messages import Failure, GiveTurn, Measure, Train, TrainResult, Turn
from autoaccel.records.settings import Settings
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KnobContext, default_settings
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.starter import WorkerStarter
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.contenders import contest
from benchmarks.harness.rows import ROOT, add_row, latest, read_rows, runs_folder, to_measure

CODE = ("autoaccel", "benchmarks/checks/ranks.py", "benchmarks/workloads", "examples")
WORKLOAD = ROOT / "benchmarks" / "workloads" / "two_endings.py"
EXAMPLES = ("digits_cnn", "tabular_mlp", "char_gpt", "image_pipeline")
TRIALS, ENDED_RUNS, PAIRS = 100, 200, 5
SECONDS = 120.0
BUDGET = "15m"  # where the metric scatters, its proof alone takes eight
RANKS: Settings = {"parallel.world_size": 2}


def traces(home: Path) -> dict[str, set[str]]:
    """Return what workers whose temporary files go to `home` have left: processes and their ports, and files.

    Shared memory is the whole computer's.
    """
    processes, ports = set(), set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid == os.getpid() or not process.environ().get("TMPDIR", "").startswith(str(home)):
                continue
            processes.add(f"{process.pid} {process.name()}")
            ports |= {str(entry.laddr) for entry in process.net_connections("tcp")}
    return {
        "processes": processes,
        "ports": ports,
        "shared memory": {path.name for path in Path("/dev/shm").iterdir()},
        "files": {str(path.relative_to(home)) for path in home.rglob("*")},
    }


def leftovers() -> dict[str, Any]:
    """Run trials, kill a third of them, and return what is left."""
    chance = random.Random(0)
    workload = find_workload(str(WORKLOAD))
    counts: Counter[str] = Counter()
    home = Path(tempfile.mkdtemp(prefix="leftovers-"))
    os.environ["TMPDIR"] = tempfile.tempdir = str(home)  # whatever a worker puts aside
    before = traces(home)
    folder = tempfile.mkdtemp(prefix="autoaccel-")
    with WorkerStarter(Path(folder), workload) as starter:
        context = KnobContext(*probe_and_describe(starter, workload, SECONDS))
        starter = starter.at(context)
        settings = default_settings(context) | RANKS
        for number in range(TRIALS):
            killed = number % 3 == 0
            if killed and chance.random() < 0.5:  # while it starts
                group = starter.start(Measure(), settings, "trial")
                time.sleep(chance.uniform(0.0, 1.0))
                os.kill(chance.choice(starter._started[-2:])._process.pid, signal.SIGKILL)
                found: object = group.receive(SECONDS)
                group.close()
            else:
                found = starter.start_measuring(settings, "trial", SECONDS)
                if isinstance(found, Measuring):
                    measuring = found
                    if killed:
                        os.kill(chance.choice(starter._started[-2:])._process.pid, signal.SIGKILL)
                    found = measuring.take_turn(GiveTurn(0.1), SECONDS)
                    measuring.close()
            counts[f"{'killed' if killed else 'left alone'}: {_word(found)}"] += 1
    rendezvous_files = [path.name for path in (Path(folder) / "logs").glob("rendezvous-*")]
    after = traces(home)
    left = {kind: sorted(after[kind] - before[kind]) for kind in after}
    return {"trials": TRIALS, "outcomes": dict(sorted(counts.items())), "left": left, "meetings": rendezvous_files}


def _word(found: object) -> str:
    if isinstance(found, Failure):
        return f"failure ({found.kind})"
    return "measured" if isinstance(found, Turn) else type(found).__name__


def endings() -> dict[str, Any]:
    """Run two ranks to the end again and again, every other time with an error in the last step."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="autoaccel-") as folder:
        machine = detect_machine()
        for entry, name in (("build", "good"), ("build_failing", "bad")):
            workload = find_workload(f"{WORKLOAD}:{entry}")
            with WorkerStarter(Path(folder), workload) as starter:
                starter = starter.at(KnobContext(machine))
                for _ in range(ENDED_RUNS // 2):
                    answer = starter.ask(Train(seeds=(0,)), RANKS, name, TrainResult, SECONDS)
                    counts[f"{name}: {'result' if isinstance(answer, TrainResult) else 'failure'}"] += 1
    return {"runs": ENDED_RUNS, "outcomes": dict(sorted(counts.items()))}


def speed() -> None:
    """Compare ranks with threads on each example, and let the tuner choose with the CPU's whole space."""
    # An interrupted check resumes.
    for example in (one for one in EXAMPLES if to_measure("ranks", [f"speed of {one}"])):
        with contest(str(ROOT / "examples" / f"{example}.py")) as held:
            ranks = held.context.machine.usable_cores
            row = {"ranks": ranks, "against one process": held.compare({"parallel.world_size": ranks}, PAIRS)}
            row["of two equal processes"] = held.compare({}, PAIRS)
        folder = runs_folder("ranks") / example
        command = [sys.executable, "-m", "autoaccel", "tune", f"examples/{example}.py", "--output", str(folder)]
        if not (folder / "recipe.json").exists():
            subprocess.run([*command, "--budget", BUDGET, "--trainings", "1000"], cwd=ROOT, check=False)
        recipe = json.loads((folder / "recipe.json").read_text())
        lines = (folder / "trials.jsonl").read_text().splitlines() if (folder / "trials.jsonl").exists() else []
        tried = [trial for trial in map(json.loads, lines) if trial["settings"].get("parallel.world_size", 1) > 1]
        speedups = [trial["comparison"]["speedup"] for trial in tried if trial.get("comparison")]
        row = {
            **row,
            "budget": BUDGET,
            "tuned": {key: recipe[key] for key in ("summary", "settings", "comparison", "accuracy")},
            "trials with ranks": len(tried),
            "their speed-ups": [round(value, 3) for value in speedups],
            "median of them": statistics.median(speedups) if speedups else None,
        }
        print(example, row["against one process"], recipe["summary"], flush=True)
        add_row("ranks", f"speed of {example}", row, code=CODE)


def main(arguments: Sequence[str]) -> None:
    """Do these parts, or all that were not done with today's code."""
    parser = make_parser(__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help="leftovers, endings, speed")
    parts = parser.parse_args(arguments).parts
    for part in (leftovers, endings):
        if part.__name__ in (parts or to_measure("ranks", ["leftovers", "endings"])):
            found = part()
            print(part.__name__, json.dumps(found, indent=1)[:2000], flush=True)
            add_row("ranks", part.__name__, found, code=CODE)
    if not parts or "speed" in parts:
        speed()
    results = {name: row.found for name, row in latest(read_rows("ranks")).items()}
    wrong = [found for found in results.get("leftovers", {}).get("left", {}).values() if found]
    counts = results.get("endings", {}).get("outcomes", {})
    if wrong or {"good: failure", "bad: result"} & counts.keys():
        sys.exit("something was left, or an ending was taken for another")


if __name__ == "__main__":
    main(sys.argv[1:])
