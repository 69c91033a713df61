"""What autoaccel adds to the steps of a script that it measures: under the script's own settings, beside plain Python.

    python -m benchmarks.studies.script_overhead [NAME ...] [--pairs N]

Each pair is two fresh processes, one after the other: plain Python with a clock after each update of an optimizer and
nothing else, and the same script in a worker, whose hooks tell each step. Who begins changes from pair to pair. A row
is a script: the difference of the middle steps, and their ratio, over the pairs. Rows go to
benchmarks/results/script_overhead.jsonl. Nothing else should run meanwhile.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autoaccel.records.trial import Failure, GiveTurn
from autoaccel.session.workloads import find_workload
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.starter import WorkerStarter
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import at_least
from benchmarks.harness.rows import ROOT, add_row, to_measure
from benchmarks.harness.side_by_side import mean_and_radius

SCRIPTS = ROOT / "tests" / "scripts"
NAMES = ("mlp.py", "trainer_class.py", "lstm_lm.py", "gpt/train.py", "digits.py")
"""From steps of a fraction of a millisecond to some of a twentieth of a second."""

PAIRS = 12
_SECONDS = 2.0  # that a process is measured, about
_START_SECONDS = 120.0
_PLAIN = """
import json, os, runpy, sys, time
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

ends, seconds = [], float(sys.argv[1])

def told():
    sys.stderr.write("ENDS" + json.dumps(ends))
    sys.stderr.flush()
    os._exit(0)

def ended(*_):
    ends.append(time.perf_counter())
    if ends[-1] - ends[0] > seconds:
        told()

register_optimizer_step_post_hook(ended)
sys.argv = sys.argv[2:]
sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
runpy.run_path(sys.argv[0], run_name="__main__")
told()
"""


def plain_seconds(program: str) -> float:
    """Return the middle step of a script under plain Python, in the working folder."""
    command = [sys.executable, "-c", _PLAIN, str(_SECONDS), program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_START_SECONDS, check=True)
    ends = json.loads(done.stderr.rpartition("ENDS")[2])
    return _middle([late - early for early, late in itertools.pairwise(ends)])


def hooked_seconds(starter: WorkerStarter, context: KnobContext) -> float:
    """Return the middle step of the same script in a worker, under its own settings.

    Raises:
        RuntimeError: If it cannot be measured.
    """
    measuring = starter.start_measuring(baseline_settings(context), "hooked", _START_SECONDS, fresh=True)
    if isinstance(measuring, Failure):
        raise RuntimeError(measuring.message)
    try:
        turn = measuring.take_turn(GiveTurn(_SECONDS), _START_SECONDS)
    finally:
        measuring.close()
    if isinstance(turn, Failure):
        raise RuntimeError(turn.message)
    return _middle(turn.step_seconds)


def _middle(seconds: Sequence[float]) -> float:
    """Return the median without the first fifth of the steps, in which a process warms up."""
    return statistics.median(seconds[len(seconds) // 5 :])


def measure(name: str, pairs: int) -> dict[str, Any]:
    """Return what was found of a script.

    Args:
        name: Of its file.
        pairs: How many.
    """
    with tempfile.TemporaryDirectory() as scratch:
        own, logs = Path(scratch) / "own", Path(scratch) / "logs"
        shutil.copytree((SCRIPTS / name).parent, own) if "/" in name else own.mkdir()
        program = Path(name).name
        shutil.copy(SCRIPTS / name, own / program)
        logs.mkdir()
        os.chdir(own)
        workload = find_workload(program)
        with WorkerStarter(logs, workload) as starter:
            context = KnobContext(*probe_and_describe(starter, workload, _START_SECONDS))
            starter = starter.at(context)
            plain, hooked = [], []
            for number in range(pairs):
                for is_plain in (number % 2 == 0, number % 2 == 1):
                    if is_plain:
                        plain.append(plain_seconds(program))
                    else:
                        hooked.append(hooked_seconds(starter, context))
        os.chdir(ROOT)
    ratio, ratio_radius = mean_and_radius([math.log(b / a) for a, b in zip(plain, hooked, strict=True)])
    added, added_radius = mean_and_radius([b - a for a, b in zip(plain, hooked, strict=True)])
    return {
        "plain_seconds": plain,
        "hooked_seconds": hooked,
        "ratio": [math.exp(ratio), math.exp(ratio - ratio_radius), math.exp(ratio + ratio_radius)],
        "added_seconds": [added, added - added_radius, added + added_radius],
    }


def main(arguments: Sequence[str]) -> int:
    """Measure what is wanted and was not measured with today's code; return the exit code."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--pairs", type=at_least(2), default=PAIRS, help="another number adds no row")
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - set(NAMES)):
        parser.error(f"there is no script {', '.join(unknown)} here; there are {', '.join(NAMES)}")
    wanted = parsed.names or list(NAMES)
    for name in wanted if parsed.pairs != PAIRS else to_measure("script_overhead", wanted):
        found = measure(name, parsed.pairs)
        if parsed.pairs == PAIRS:
            code = ("autoaccel/runtime", "benchmarks/studies/script_overhead.py", f"tests/scripts/{name}")
            add_row("script_overhead", name, found, code=code)
        added, ratio = [1e6 * each for each in found["added_seconds"]], found["ratio"]
        print(f"{name}: {added[0]:.0f} us more a step ({added[1]:.0f} to {added[2]:.0f}), "
              f"{ratio[0]:.3f} ({ratio[1]:.3f} to {ratio[2]:.3f}) times as long", flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
