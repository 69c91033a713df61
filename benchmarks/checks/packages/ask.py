"""Ask what a tune believes of a script before it measures: its first look, in a process as a tune's.

    python -m benchmarks.checks.packages.ask SCRIPT FOUND.json

It runs in the environment of the script's own package, which has autoaccel as well.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from autoaccel.errors import AutoaccelError
from autoaccel.records.workload import Script
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.starter import WorkerStarter

_SECONDS = 300.0


def ask(path: Path) -> dict[str, Any]:
    """Return what was seen of a script, or why nothing was."""
    script = Script(str(path), path.name, str(path.parent), "0" * 64, ())
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as run, WorkerStarter(Path(run), script) as starter:
        try:
            _, facts = probe_and_describe(starter, script, _SECONDS)
        except AutoaccelError as error:
            return {"failed": str(error)}
    assert facts.script is not None
    seen = facts.script
    return {
        "models": [one.kind for one in seen.models],
        "optimizers": [one.kind for one in seen.optimizers],
        "updates itself": seen.updates_itself,
        "loaders": [
            f"{one.key.dataset} {one.key.samples} in {one.key.batch_size}" for one in seen.loaders if one.feeds
        ],
        "steps an epoch": seen.steps_per_epoch,
        "samples a step": facts.batch_size,
        "planned": seen.planned_steps,
        "assumed": facts.planned_steps if seen.planned_steps is None else None,
        "planned from": seen.planned_from,
        "does": list(seen.does),
        "all": msgspec.to_builtins(seen),
        "seconds": round(time.perf_counter() - began, 1),
    }


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(msgspec.json.encode(ask(Path(sys.argv[1]).absolute())))
