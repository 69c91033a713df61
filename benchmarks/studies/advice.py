"""How long advice takes on each example, and whether the shares of its phases add up to a step.

    python -m benchmarks.studies.advice [--times 3] [NAME ...]

Results go to benchmarks/results/advice.jsonl; minutes. What is there of today's code is not
measured again unless it is named.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row, to_measure

CODE = ("autoaccel", "benchmarks/studies/advice.py", "examples")
EXAMPLES = ("digits_cnn", "char_gpt", "image_pipeline", "tabular_mlp")
MAX_SECONDS = 30.0
MAX_DEPARTURE = 0.03  # of the phases together from the untraced step time


def advise(name: str) -> dict[str, Any]:
    """Return what one call took and said."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "autoaccel", "advise", f"examples/{name}.py", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT)
    seconds = time.perf_counter() - start
    said = json.loads(done.stdout)
    profile = said["profile"]
    phases = sum(profile["phases"].values()) * profile["phase_seconds"]
    return {
        "seconds": seconds,
        "step_seconds": profile["step_seconds"],
        "phases_over_step": phases / profile["step_seconds"],
        "tracing_overhead": profile["traced_step_seconds"] / profile["step_seconds"] - 1,
        "CPU": f"{said['machine']['cpu']['model']} {said['machine']['cpu']['revision']}",
        "findings": [[found["code"], found["bound_speedup"]] for found in said["findings"]],
    }


def main(arguments: Sequence[str]) -> int:
    """Advise; write the results. Return 1 if an example took too long or its phases do not add up."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--times", type=int, default=3)
    parsed = parser.parse_args(arguments)
    kept = True
    for name in parsed.names or to_measure("advice", EXAMPLES):
        calls = [advise(name) for _ in range(parsed.times)]
        departure = statistics.median(abs(call["phases_over_step"] - 1) for call in calls)
        longest = max(call["seconds"] for call in calls)
        row = {
            "calls": calls,
            "longest_seconds": longest,
            "median_departure": departure,
            "kept": longest <= MAX_SECONDS and departure <= MAX_DEPARTURE,
        }
        first = ", ".join(f"{code} {bound:.2f}x" for code, bound in calls[0]["findings"][:3])
        print(f"{name:15} {longest:5.1f} s at most, phases off by {departure:.1%}; {first}", flush=True)
        kept = kept and row["kept"]
        add_row("advice", name, row, code=CODE)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
