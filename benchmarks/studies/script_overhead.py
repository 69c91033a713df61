"""What autoaccel adds to the steps of a script, under the script's own settings, beside plain Python.

    python -m benchmarks.studies.script_overhead [NAME ...] [--rounds N]

Each round is three fresh processes, one after the other:

    plain   the script under plain Python, with a clock after each update of an optimizer and nothing else
    run     the same, with what `autoaccel run` puts into the process of the script
    hooked  the script in a worker that measures it, whose hooks tell each step

Who begins changes from round to round; a script that ends within the two seconds of a process is run again in all
three, with its own modules imported anew, as trials do it: functions that are new to Python take longer at first.
Rounds of `plain` and `run` alone follow until the interval of their ratio is 1 % to either side, or there are 60 in
all. A row is a script: the difference of the middle steps from those of plain Python, and their ratio, over the
rounds. A process now and then takes half as long again as the others, whatever is in it, so both are trimmed means,
without the lowest and the highest fifth, with their 95 % intervals (Tukey and McLaughlin, Sankhya A 25, 1963). Two
processes differ by a hundredth whatever is in them, so where steps are long the difference says little of hooks, which
benchmarks.studies.script_hooks times. Rows go to benchmarks/results/script_overhead.jsonl. Nothing else should run
meanwhile.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scipy.stats.mstats import trimmed_mean, trimmed_mean_ci

from autoaccel.records.base import encode
from autoaccel.records.messages import Failure, GiveTurn, Train, WorkerSpec
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.starter import WorkerStarter
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import at_least
from benchmarks.harness.rows import ROOT, add_row, to_measure

SCRIPTS = ROOT / "tests" / "scripts"
NAMES = ("mlp.py", "trainer_class.py", "lstm_lm.py", "gpt/train.py", "digits.py")
"""From steps of a fraction of a millisecond to some of a twentieth of a second."""

ROUNDS = 20
_MOST_ROUNDS = 60  # of `plain` and `run`
_RADIUS = 0.01  # of the logarithm of their ratio, at which no more rounds are needed
_SECONDS = 2.0  # that a process is measured, about
_START_SECONDS = 120.0
_TIMED = """
import json, os, runpy, sys, time
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

if spec := os.environ.pop("SPEC", ""):
    from autoaccel.records.base import decode
    from autoaccel.records.messages import WorkerSpec
    from autoaccel.runtime.script.whole_run import apply_to_run

    apply_to_run(decode(spec.encode(), WorkerSpec))

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
while True:
    before = set(sys.modules)
    runpy.run_path(sys.argv[0], run_name="__main__")
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(os.getcwd()):
            del sys.modules[name]
"""


def timed_seconds(program: str, spec: WorkerSpec | None = None) -> float:
    """Return the middle step of a script under Python, in the working folder.

    Args:
        program: The script.
        spec: What `autoaccel run` applies to it; None: nothing.
    """
    command = [sys.executable, "-c", _TIMED, str(_SECONDS), program]
    environment = os.environ | ({"SPEC": encode(spec).decode()} if spec is not None else {})
    done = subprocess.run(command, capture_output=True, text=True, timeout=_START_SECONDS, check=True, env=environment)
    ends = json.loads(done.stderr.rpartition("ENDS")[2])
    return middle_step([late - early for early, late in itertools.pairwise(ends)])


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
    return middle_step(turn.step_seconds)


def middle_step(seconds: Sequence[float]) -> float:
    """Return the median without the first fifth of the steps, in which a process warms up."""
    return statistics.median(seconds[len(seconds) // 5 :])


@contextmanager
def described(name: str) -> Iterator[tuple[str, WorkerStarter, KnobContext, WorkerSpec]]:
    """Make a copy of a script the working folder, and describe it.

    Give the program, what starts its workers, what is known of it, and what `autoaccel run` applies to it under its own
    settings.

    Args:
        name: Of its file.
    """
    with tempfile.TemporaryDirectory() as scratch:
        own, logs = Path(scratch) / "own", Path(scratch) / "logs"
        shutil.copytree((SCRIPTS / name).parent, own) if "/" in name else own.mkdir()
        program = Path(name).name
        shutil.copy(SCRIPTS / name, own / program)
        logs.mkdir()
        os.chdir(own)
        workload = find_workload(program)
        try:
            with WorkerStarter(logs, workload) as starter:
                context = KnobContext(*probe_and_describe(starter, workload, _START_SECONDS))
                facts = context.training
                assert facts is not None  # it was described
                spec = WorkerSpec(
                    Train(seeds=()), workload, baseline_settings(context), found=facts.found, script=facts.script
                )
                yield program, starter.at(context), context, spec
        finally:
            os.chdir(ROOT)


def measure(name: str, rounds: int, most_rounds: int) -> dict[str, Any]:
    """Return what was found of a script.

    Args:
        name: Of its file.
        rounds: Of all ways.
        most_rounds: Of the first two.
    """
    with described(name) as (program, starter, context, spec):
        ways: dict[str, Callable[[], float]] = {
            "plain": lambda: timed_seconds(program),
            "run": lambda: timed_seconds(program, spec),
            "hooked": lambda: hooked_seconds(starter, context),
        }
        seconds: dict[str, list[float]] = {way: [] for way in ways}

        def take_round(names: Sequence[str], number: int) -> None:
            for place in range(len(names)):
                way = names[(number + place) % len(names)]
                seconds[way].append(ways[way]())

        for number in range(rounds):
            take_round(list(ways), number)
        number = rounds
        while number < most_rounds and _is_wide(trimmed(_log_ratios(seconds["plain"], seconds["run"]))):
            take_round(["plain", "run"], number)
            number += 1
    found: dict[str, Any] = {f"{way}_seconds": seconds[way] for way in ways}
    for way in ("run", "hooked"):
        plain = seconds["plain"][: len(seconds[way])]
        found[way] = {
            "ratio": [math.exp(each) for each in trimmed(_log_ratios(plain, seconds[way]))],
            "added_seconds": trimmed([late - early for early, late in zip(plain, seconds[way], strict=True)]),
        }
    return found


def trimmed(values: Sequence[float]) -> list[float]:
    """Return the mean without the lowest and the highest fifth, and the ends of its 95 % interval."""
    sides = (0.2, 0.2)
    low, high = trimmed_mean_ci(values, limits=sides, alpha=0.05)
    return [float(trimmed_mean(values, limits=sides)), float(low), float(high)]


def _log_ratios(below: Sequence[float], above: Sequence[float]) -> list[float]:
    return [math.log(late / early) for early, late in zip(below, above, strict=True)]


def _is_wide(interval: Sequence[float]) -> bool:
    return interval[2] - interval[1] > 2 * _RADIUS


def main(arguments: Sequence[str]) -> int:
    """Measure what is wanted and was not measured with today's code; return the exit code."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--rounds", type=at_least(2), default=ROUNDS, help="another number adds no row")
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - set(NAMES)):
        parser.error(f"there is no script {', '.join(unknown)} here; there are {', '.join(NAMES)}")
    wanted = parsed.names or list(NAMES)
    for name in wanted if parsed.rounds != ROUNDS else to_measure("script_overhead", wanted):
        found = measure(name, parsed.rounds, _MOST_ROUNDS if parsed.rounds == ROUNDS else parsed.rounds)
        if parsed.rounds == ROUNDS:
            code = ("autoaccel/runtime", "benchmarks/studies/script_overhead.py", f"tests/scripts/{name}")
            add_row("script_overhead", name, found, code=code)
        for way in ("run", "hooked"):
            added, ratio = [1e6 * each for each in found[way]["added_seconds"]], found[way]["ratio"]
            print(f"{name}, {way}: {added[0]:.0f} us more a step ({added[1]:.0f} to {added[2]:.0f}), "
                  f"{ratio[0]:.3f} ({ratio[1]:.3f} to {ratio[2]:.3f}) times as long", flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
