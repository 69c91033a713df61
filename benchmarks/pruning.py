"""Sparsity against time and accuracy, in both libraries that prune.

    pip install 'autoaccel[pruning,nni]'
    python benchmarks/pruning.py

The digits network is trained as planned, from three seeds, at each sparsity from 0 to 80 %, channels removed after one
epoch; and its steps are measured against the whole network's in fresh pairs of processes. Then `autoaccel tune` with
pruning open says whether it pays. Results go to benchmarks/results/pruning.json. About three quarters of an hour.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from contenders import Contest, contest, machine_of

from autoaccel.records.settings import Settings
from autoaccel.records.trial import Failure, Train, TrainResult
from autoaccel.space.knobs.model import PRUNING_LIBRARIES, SPARSITIES

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "pruning.json"
MODEL = "examples/digits_cnn.py"
SEEDS, PAIRS = (0, 1, 2), 8


def measure(held: Contest, change: Settings) -> dict[str, Any]:
    """Return time and accuracy under a change."""
    trained = held.run.runner.ask(Train(seeds=SEEDS), held.own | change, "train", TrainResult, math.inf)
    if isinstance(trained, Failure):
        return {"failure": trained.kind, "message": trained.message}
    found = {
        "accuracy": statistics.fmean(trained.metrics),
        "accuracies": list(trained.metrics),
        "train_seconds": statistics.median(trained.train_seconds),  # warm-up epoch and pruning included
    }
    return {**found, **held.compare(change, PAIRS)} if change else found


def main() -> None:
    """Measure what is not there yet, and let the tuner decide."""
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"table": {}}
    with contest(str(ROOT / MODEL)) as held:
        installed = [name for name in PRUNING_LIBRARIES if name in held.place.machine.packages]
        results["machine"] = machine_of(held.place)
        results["libraries"] = {name: held.place.machine.packages[name] for name in installed}
        rows: dict[str, Settings] = {"whole": {}}
        for library in installed:
            for sparsity in SPARSITIES[1:]:
                rows[f"{library} {sparsity:.0%}"] = {"model.sparsity": sparsity, "model.pruning_library": library}
        for name, change in rows.items():
            if "accuracy" not in results["table"].get(name, {}):
                results["table"][name] = measure(held, change)
                print(name, results["table"][name], flush=True)
                RESULTS.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
    if "tuned" not in results:
        results["tuned"] = tune()
        RESULTS.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")


def tune() -> dict[str, Any]:
    """Return what a search with pruning open comes to."""
    command = [sys.executable, "-m", "autoaccel", "tune", MODEL, "--space", "benchmarks/pruning.toml", "--json"]
    done = subprocess.run(
        [*command, "--max-drop", "1%", "--budget", "8m", "--runs", "1000"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    recipe = json.loads(done.stdout)
    keys = ("summary", "settings", "comparison", "accuracy", "projection", "model_size", "search")
    return {"exit_code": done.returncode, **{key: recipe[key] for key in keys}}


if __name__ == "__main__":
    main()
