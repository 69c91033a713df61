"""Tune while a neighbour hogs every core in bursts: is the pick as good, or does the run say that it cannot tell?

    python -m benchmarks.studies.neighbour [--busy 4] [--calm 6] [--runs 3]

Tunes the digits network undisturbed and with a neighbour, then measures both picks in fresh processes, in turns, with
nothing beside them. Results go to benchmarks/results/neighbour.jsonl. Takes about a quarter of an hour.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row
from benchmarks.page.searches import t_radius

MODEL = ROOT / "examples" / "digits_cnn.py"
CODE = ("autoaccel", "benchmarks/studies/neighbour.py", "examples/digits_cnn.py")
ROUNDS, TURNS = 5, 10

HOG = """
import random, sys, time
generator = random.Random(int(sys.argv[3]))
while True:
    until = time.monotonic() + generator.expovariate(1 / float(sys.argv[1]))
    while time.monotonic() < until:
        pass
    time.sleep(generator.expovariate(1 / float(sys.argv[2])))
"""


def tune(folder: Path, busy: float, calm: float, seed: int) -> dict[str, Any]:
    """Tune; with a neighbour that is busy for so many seconds and calm for so many, on average."""
    # One seed for all hogs: they are busy at the same time, on every core.
    hogs = [
        subprocess.Popen([sys.executable, "-c", HOG, str(busy), str(calm), str(seed)])
        for _ in range(os.cpu_count() if busy else 0)
    ]
    try:
        command = [sys.executable, "-m", "autoaccel", "tune", str(MODEL), "--budget", "6m", "--output", str(folder)]
        subprocess.run(command, check=False)
    finally:
        for hog in hogs:
            hog.send_signal(signal.SIGKILL)
            hog.wait()
    recipe: dict[str, Any] = json.loads((folder / "recipe.json").read_text())
    return recipe


def compare(picks: dict[str, dict[str, Any]]) -> dict[str, list[float]]:
    """Return the log speed of each pick relative to the first's, for each round of fresh processes, in turns."""
    from autoaccel.runs.workloads import find_workload
    from autoaccel.space.knobs import KnobContext
    from autoaccel.statistics.comparison import middle
    from autoaccel.statistics.steps import step_seconds_of_turns
    from autoaccel.statistics.turn_plan import plan_turns
    from autoaccel.workers.describing import probe_and_describe
    from autoaccel.workers.measuring import Measuring
    from autoaccel.workers.starter import WorkerStarter

    first = next(iter(picks))
    logs: dict[str, list[float]] = {name: [] for name in picks}
    with tempfile.TemporaryDirectory() as folder, WorkerStarter(Path(folder), find_workload(str(MODEL))) as starter:
        machine, facts = probe_and_describe(starter, find_workload(str(MODEL)), 120.0)
        starter = starter.at(KnobContext(machine, facts))
        for number in range(ROUNDS):
            alive: dict[str, Measuring] = {}
            for name, settings in picks.items():
                measuring = starter.start_measuring(settings, name, 300.0)
                assert isinstance(measuring, Measuring), measuring
                alive[name] = measuring
            order = plan_turns(alive[first].warm_step_seconds).order
            for turn in range(TURNS):
                for name in random.Random(f"{number} {turn}").sample(list(alive), len(alive)):
                    alive[name].take_turn(order, 300.0)
            steps = {name: step_seconds_of_turns(one.turns, facts.steps_per_epoch) for name, one in alive.items()}
            for name, one in alive.items():
                one.close()
                logs[name].append(middle([math.log(a / b) for a, b in zip(steps[first], steps[name], strict=True)]))
    return logs


def interval(logs: list[float]) -> list[float]:
    """Return Student's 95 % interval of the speed, over rounds."""
    mean, radius = statistics.fmean(logs), t_radius(logs)
    return [math.exp(mean - radius), math.exp(mean + radius)]


def main() -> None:
    """Tune with and without a neighbour; write what came of it."""
    parser = make_parser(__doc__)
    parser.add_argument("--busy", type=float, default=4.0, help="seconds, on average")
    parser.add_argument("--calm", type=float, default=6.0)
    parser.add_argument("--runs", type=int, default=3)
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        recipes = {"undisturbed": tune(Path(folder) / "undisturbed", 0.0, 0.0, 0)}
        for number in range(1, parsed.runs + 1):
            recipes[f"disturbed {number}"] = tune(
                Path(folder) / f"disturbed-{number}", parsed.busy, parsed.calm, number
            )
    logs = compare({name: recipe["settings"] for name, recipe in recipes.items()})
    found = {
        name: {
            "summary": recipe["summary"],
            "settings": recipe["settings"],
            "disturbed_share": recipe["search"]["disturbed_share"],
            "seconds": recipe["search"]["spent_seconds"],
            "speed_relative_to_undisturbed_pick": math.exp(statistics.fmean(logs[name])),
            "interval": interval(logs[name]),
        }
        for name, recipe in recipes.items()
    }
    add_row("neighbour", "all", {"busy": parsed.busy, "calm": parsed.calm, "runs": found}, code=CODE)
    for name, row in found.items():
        print(f"{name}: {row['speed_relative_to_undisturbed_pick']:.3f}  {row['summary']}")


if __name__ == "__main__":
    main()
