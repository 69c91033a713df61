"""Sparsity against time and accuracy, in both libraries that prune.

    pip install 'autoaccel[pruning,nni]'
    python -m benchmarks.studies.pruning

The digits network is trained as planned, from three seeds, at each sparsity from 0 to 80 %, channels removed after one
epoch; and its steps are measured against the whole network's in fresh pairs of processes. Then `autoaccel tune` with
pruning open says whether it pays. Results go to benchmarks/results/pruning.jsonl. About three quarters of an hour.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from typing import Any

from autoaccel.records.messages import Failure, Train, TrainResult
from autoaccel.records.settings import Settings
from autoaccel.space.knobs.model import PRUNING_LIBRARIES, SPARSITIES
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.contenders import Contest, contest, machine_of
from benchmarks.harness.rows import ROOT, add_row, to_measure

CODE = ("autoaccel", "benchmarks/studies/pruning.py", "examples/digits_cnn.py")
MODEL = "examples/digits_cnn.py"
SEEDS, PAIRS = (0, 1, 2), 8


def measure(held: Contest, change: Settings) -> dict[str, Any]:
    """Return time and accuracy under a change."""
    trained = held.run.starter.ask(Train(seeds=SEEDS), held.baseline_settings | change, "train", TrainResult, math.inf)
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
    make_parser(__doc__).parse_args()
    with contest(str(ROOT / MODEL)) as held:
        installed = [name for name in PRUNING_LIBRARIES if name in held.context.machine.packages]
        versions = {name: held.context.machine.packages[name] for name in installed}
        rows: dict[str, Settings] = {"whole": {}}
        for library in installed:
            for sparsity in SPARSITIES[1:]:
                rows[f"{library} {sparsity:.0%}"] = {"model.sparsity": sparsity, "model.pruning_library": library}
        for name in to_measure("pruning", rows):
            found = measure(held, rows[name])
            print(name, found, flush=True)
            if "failure" in found:
                reason = f"{found['failure']}: {found['message']}"
                add_row("pruning", name, found, code=CODE, status="failed", reason=reason)
            else:
                add_row("pruning", name, found, code=CODE)
        if to_measure("pruning", ["libraries"]):
            add_row("pruning", "libraries", {"libraries": versions, "machine": machine_of(held.context)}, code=CODE)
    if to_measure("pruning", ["tuned"]):
        add_row("pruning", "tuned", tune(), code=CODE)


def tune() -> dict[str, Any]:
    """Return what a search with pruning open comes to."""
    command = [sys.executable, "-m", "autoaccel", "tune", MODEL, "--space", "benchmarks/spaces/pruning.toml", "--json"]
    done = subprocess.run(
        [*command, "--max-drop", "1%", "--budget", "8m", "--trainings", "1000"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    recipe = json.loads(done.stdout)
    keys = ("summary", "settings", "comparison", "accuracy", "projection", "model_size", "search")
    return {"exit_code": done.returncode, **{key: recipe[key] for key in keys}}


if __name__ == "__main__":
    main()
