"""Trainings that are tuned while they run beside a neighbour that comes and goes, against the same in plain Python.

    python -m benchmarks.studies.live_neighbour.measure [NAME ...] [--pairs 10] [--minutes N]

A neighbour keeps all cores busy for two seconds in the mean, then is calm for three. Of each pair of runs, plain and
tuned, both meet it at the same moments; which comes first changes from pair to pair. A row of
benchmarks/results/live_neighbour.jsonl says how many times as fast the tuned runs were. Nothing else should run
meanwhile. Another number of pairs adds no row.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import MINUTES, at_least, ending_in_time
from benchmarks.harness.rows import ROOT, add_row, provenance, to_measure
from benchmarks.harness.side_by_side import mean_and_radius
from benchmarks.studies.live_neighbour.train import TRAININGS
from benchmarks.studies.neighbour import HOG

CODE = ("autoaccel", "benchmarks/studies/live_neighbour")
PAIRS, BUSY_SECONDS, CALM_SECONDS = 10, 2.0, 3.0
ENOUGH_SECONDS = 900.0  # of the time that is left, to begin another training


@contextlib.contextmanager
def neighbour(seed: int) -> Iterator[None]:
    """Have a neighbour on every core, busy and calm at moments that a seed decides on."""
    hogs = [
        subprocess.Popen([sys.executable, "-c", HOG, str(BUSY_SECONDS), str(CALM_SECONDS), str(seed)])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def trained(name: str, seed: int, live: bool) -> dict[str, Any]:
    """Train beside the neighbour, in a process of its own; return what it tells.

    Raises:
        subprocess.CalledProcessError: If it fails.
    """
    command = [sys.executable, "-m", "benchmarks.studies.live_neighbour.train", name]
    with tempfile.TemporaryDirectory() as folder, neighbour(seed):
        command += ["--live", folder] if live else []
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(name: str, pairs: int) -> dict[str, Any]:
    """Return how many times as fast a training is as in plain Python when it is tuned while it runs."""
    seconds, said = [], []
    for seed in range(pairs):
        found = {live: trained(name, seed, live) for live in (bool(seed % 2), not seed % 2)}
        seconds.append([found[False]["seconds"], found[True]["seconds"]])
        said.append(found[True]["said"])
        print(f"{name}, pair {seed + 1}: {seconds[-1][0]:.1f} s plain, {seconds[-1][1]:.1f} s", flush=True)
    mean, radius = mean_and_radius([math.log(plain / live) for plain, live in seconds])
    interval = [math.exp(mean - radius), math.exp(mean + radius)]
    return {"seconds": seconds, "times_as_fast": math.exp(mean), "interval": interval, "said": said}


def main(arguments: Sequence[str]) -> int:
    """Measure what is asked for and was not measured with today's code; return the exit code."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TRAININGS))
    parser.add_argument("--pairs", type=at_least(2), default=PAIRS, help="of runs; another number adds no row")
    parser.add_argument("--minutes", **MINUTES)
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - TRAININGS.keys()):
        parser.error(f"there is no training {', '.join(unknown)}; there are {', '.join(TRAININGS)}")
    names, adds_rows = parsed.names or list(TRAININGS), parsed.pairs == PAIRS
    with ending_in_time(parsed.minutes) as seconds_left:
        for name in to_measure("live_neighbour", names) if adds_rows else names:
            if seconds_left() < ENOUGH_SECONDS:
                print(f"{name}: left for another time", flush=True)
                continue
            made = provenance(CODE)
            found = measure(name, parsed.pairs)
            if adds_rows:
                add_row("live_neighbour", name, found, made=made)
            low, high = found["interval"]
            print(f"{name}: {found['times_as_fast']:.3f}x plain ({low:.3f} to {high:.3f})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
