"""How long the middle step of a script is within the hooks of its measurement, by the clock, under its own settings.

    python -m benchmarks.studies.script_hooks [NAME ...]

The clock is read on either side of what is put around backward(), the updates of optimizers and the calls of models, in
a process that is otherwise measured as in a trial; one of the two readings is in what is found. What computes a step
has left nothing of the hooks in the caches of the processor, so that they take several times as long after long steps
as after short ones, and after each of several calls of backward(). A row is a script: the trimmed mean over ten
processes and its interval, and what a step takes. Rows go to benchmarks/results/script_hooks.jsonl; about 6 s for each
process. Nothing else should run meanwhile.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from autoaccel.records.base import encode
from autoaccel.records.messages import Measure, WorkerSpec
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row, to_measure
from benchmarks.harness.within import MARK
from benchmarks.studies.script_overhead import NAMES, described, middle_step, trimmed

_PROCESSES = 10
_SECONDS = 3.0  # of steps in each process
_MOST_SECONDS = 120.0  # of a process


def middle_seconds(spec: WorkerSpec) -> tuple[float, float]:
    """Return how long the middle step is within the hooks, and how long a step is, in the working folder.

    Args:
        spec: Measures the script under its own settings.

    Raises:
        RuntimeError: If the script cannot be measured.
    """
    command = [sys.executable, "-m", "benchmarks.harness.within", str(_SECONDS)]
    environment = os.environ | {"SPEC": encode(spec).decode(), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=_MOST_SECONDS, env=environment)
    if MARK not in done.stderr:
        raise RuntimeError(done.stderr)
    within, steps = json.loads(done.stderr.rpartition(MARK)[2])
    return middle_step(within), middle_step(steps)


def measure(name: str) -> dict[str, Any]:
    """Return what was found of a script."""
    with described(name) as (_, _, _, spec):
        measured = msgspec.structs.replace(spec, task=Measure())
        found = [middle_seconds(measured) for _ in range(_PROCESSES)]
    within = [seconds for seconds, _ in found]
    return {
        "within_seconds": trimmed(within),
        "step_seconds": statistics.median(step for _, step in found),
        "each_within_seconds": within,
    }


def main(arguments: Sequence[str]) -> int:
    """Measure what is wanted and was not measured with today's code; return the exit code."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - set(NAMES)):
        parser.error(f"there is no script {', '.join(unknown)} here; there are {', '.join(NAMES)}")
    for name in to_measure("script_hooks", parsed.names or list(NAMES)):
        found = measure(name)
        code = ("autoaccel/runtime", "benchmarks/harness/within.py", f"tests/scripts/{name}")
        add_row("script_hooks", name, found, code=code)
        middle, low, high = (1e6 * each for each in found["within_seconds"])
        print(f"{name}: {middle:.0f} us ({low:.0f} to {high:.0f}) of {1e3 * found['step_seconds']:.2f} ms", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
