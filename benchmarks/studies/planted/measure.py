"""Plant problems in small trainings: does `autoaccel advise` name them, and does removing them win what it says?

    python -m benchmarks.studies.planted.measure [--advise-only] [--rounds 5] [--seconds 0.5] [NAME ...]

Each file in benchmarks/studies/planted/problems defines build(), which has a problem, and fixed(), which has not. The
advice must name it first or second. Then both are measured in fresh pairs of processes that take turns, so that both
meet the same neighbours. What the repair wins, as a median over pairs of medians over turns, may be at most 1.05
times the bound, and where the finding claims it, at least half of what the bound says. Results go to
benchmarks/results/planted.jsonl.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row, to_measure

FOLDER = Path(__file__).with_name("problems")
CODE = ("autoaccel", "benchmarks/studies/planted/problems", "benchmarks/studies/planted/measure.py")
PLANTED = {
    "sleeping_dataset": "waiting-sample",
    "item_per_sample": "synchronising",
    "batch_of_one": "tiny-batch",
    "one_thread": "few-threads",
    "gradients_in_evaluation": "evaluation-gradients",
    "double_precision": "float64-model",
    "tiny_operators": "small-operators",
    "heavy_augmentation": "slow-sample",
    "anomaly_mode": "anomaly-mode",
    "deterministic_algorithms": "deterministic",
    "too_many_workers": "many-workers",
    "gradient_loop": "gradient-loop",
    "profiler_left_on": "profiler-on",
}
"""File -> code of the finding that names its problem."""

OF_THE_EPOCH = ("evaluation-gradients", "long-evaluation")
"""Findings whose shares are of an epoch with its evaluation, not of a step."""

TOLERANCE = 1.05  # by which a measured gain may exceed its bound
WARM_SECONDS = 1.0
TURNS = 8  # of each process
FIRST = 2  # place up to which a problem counts as named


def advise(name: str) -> tuple[dict[str, Any], float]:
    """Return the advice on the planted problem, and the seconds that took."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "autoaccel", "advise", str(FOLDER / f"{name}.py"), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    said: dict[str, Any] = json.loads(done.stdout)
    return said, time.perf_counter() - start


class Trainer:
    """A process that trains one entry of a planted file, and stands still between its turns, loader workers too.

    It is none of autoaccel's workers: what those add to a step, advice must not take for the user's.
    """

    def __init__(self, name: str, entry: str) -> None:
        """Start it, and wait until it has warmed up."""
        command = [sys.executable, "-m", "benchmarks.studies.planted.measure", "--turns-of", entry, name]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=ROOT
        )
        self._answer()

    def turn(self, seconds: float, with_evaluation: bool) -> float:
        """Return how long an epoch takes, projected from steps for so many seconds."""
        assert self.process.stdin is not None
        os.killpg(self.process.pid, signal.SIGCONT)
        print(json.dumps([seconds, with_evaluation]), file=self.process.stdin, flush=True)
        return float(self._answer())

    def close(self) -> None:
        """End it."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args} ended with status {self.process.wait()}")
        os.killpg(self.process.pid, signal.SIGSTOP)
        return line


def take_turns(name: str, entry: str) -> None:
    """Train, and print for each line that asks for a turn what an epoch takes, in seconds."""
    from autoaccel.runs.workloads import find_workload
    from autoaccel.runtime.applied import Applied
    from autoaccel.runtime.loading import build_training, load_build
    from autoaccel.runtime.loop import Loop, device_of

    workload = find_workload(f"{FOLDER / name}.py:{entry}")
    training = build_training(load_build(workload), workload, seed=0)
    loop = Loop(training, Applied(training.settings, device_of(training)), seed=0)
    start = time.perf_counter()
    while time.perf_counter() - start < WARM_SECONDS or loop.steps_done < 3:
        loop.step()
    loop.evaluate()
    print("warm", flush=True)
    for line in sys.stdin:
        seconds, with_evaluation = json.loads(line)
        loop.step()  # on what the other process left in the caches
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds or steps < 3:
            loop.step()
            steps += 1
        epoch_seconds = (time.perf_counter() - start) / steps * loop.steps_per_epoch
        if with_evaluation:
            start = time.perf_counter()
            loop.evaluate()
            epoch_seconds += time.perf_counter() - start
        print(epoch_seconds, flush=True)


def gain_of_pair(name: str, entries: Sequence[str], turn_seconds: float, with_evaluation: bool) -> float:
    """Return how much faster the repaired training is than the planted one: the median over turns."""
    with contextlib.ExitStack() as stack:
        trainers = {}
        for entry in entries:
            trainers[entry] = Trainer(name, entry)
            stack.callback(trainers[entry].close)
        ratios = []
        for number in range(TURNS):
            order = entries if number % 2 == 0 else entries[::-1]
            took = {entry: trainers[entry].turn(turn_seconds, with_evaluation) for entry in order}
            ratios.append(took["build"] / took["fixed"])
    return statistics.median(ratios)


def look_at(name: str, code: str) -> dict[str, Any]:
    """Return what the advice says of one planted problem."""
    said, seconds = advise(name)
    findings, cpu = said["findings"], said["machine"]["cpu"]
    codes = [finding["code"] for finding in findings]
    place = codes.index(code) + 1 if code in codes else None
    found = findings[place - 1] if place else {}
    named = "not named" if place is None else f"named {'first' if place == 1 else f'at place {place}'}"
    bound = f", at most {found['bound_speedup']:.2f}x" if found else ""
    print(f"{name:26} {code:22} {named}{bound}, {seconds:.0f} s; then {', '.join(codes[:3])}", flush=True)
    return {
        "code": code,
        "place": place,
        "title": found.get("title"),
        "bound_speedup": found.get("bound_speedup"),
        "claims_half": found.get("claims_half", False),
        "advise_seconds": seconds,
        "CPU": f"{cpu['model']} {cpu['revision']}",
    }


def measure(name: str, row: dict[str, Any], rounds: int, turn_seconds: float) -> None:
    """Add to a row what the repair wins, and whether that is within what the advice says."""
    with_evaluation = row["code"] in OF_THE_EPOCH
    gains = []
    for number in range(rounds):
        # Who comes first changes, so that neither always meets what the other left.
        entries = ("build", "fixed") if number % 2 == 0 else ("fixed", "build")
        gains.append(gain_of_pair(name, entries, turn_seconds, with_evaluation))
    gain = statistics.median(gains)
    bound = row["bound_speedup"]
    row |= {
        "gains": gains,
        "gain": gain,
        "within_bound": bound is not None and gain <= TOLERANCE * bound,
        "half_of_bound": bound is not None and gain - 1 >= (bound - 1) / 2,
    }
    said = "claims half" if row["claims_half"] else "does not claim half"
    print(f"{name:26} repaired {gain:.2f}x faster ({min(gains):.2f} to {max(gains):.2f}), {said}", flush=True)


def is_kept(row: dict[str, Any]) -> bool:
    """Whether the advice kept its word."""
    named = row["place"] is not None and row["place"] <= FIRST
    measured = "gain" in row
    claims = row.get("within_bound", True) and (row.get("half_of_bound", True) or not row["claims_half"])
    return named and (claims or not measured)


def main(arguments: Sequence[str]) -> int:
    """Advise and measure; write the results. Return 1 if the advice did not keep its word."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--advise-only", action="store_true", help="measure nothing, write nothing")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--turns-of", help=argparse.SUPPRESS)
    parsed = parser.parse_args(arguments)
    if parsed.turns_of:
        take_turns(parsed.names[0], parsed.turns_of)
        return 0
    rows: dict[str, dict[str, Any]] = {}
    for name in parsed.names or (PLANTED if parsed.advise_only else to_measure("planted", PLANTED)):
        rows[name] = look_at(name, PLANTED[name])
        if not parsed.advise_only:
            measure(name, rows[name], parsed.rounds, parsed.seconds)
            add_row("planted", name, rows[name], code=CODE)
    broken = [name for name, row in rows.items() if not is_kept(row)]
    print(f"{len(rows) - len(broken)} of {len(rows)} as advised" + (f"; not: {', '.join(broken)}" if broken else ""))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
