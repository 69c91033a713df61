"""Whether settings that harm a training are given up where it is tuned while it runs, and what they have cost.

    python -m benchmarks.studies.harms.measure [KIND ...] [--minutes N]

Forty harms are planted, eight of each kind, in a training of 1,500 short steps: some show in single updates, some only
after hundreds of steps. A row of benchmarks/results/harms.jsonl says, for each kind, how many were still in use at the
end, and how the time of each run compares with that of the same training in plain Python, measured before and after the
eight. Nothing else should run meanwhile.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autoaccel.records.base import decode
from autoaccel.records.live import LiveTried
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import MINUTES, ending_in_time
from benchmarks.harness.rows import ROOT, add_row, provenance, to_measure
from benchmarks.studies.harms.train import HARMS

CODE = ("autoaccel", "benchmarks/studies/harms")
ENOUGH_SECONDS = 480.0  # of the time that is left, to begin another kind


def trained(kind: str, number: int, *more: str) -> dict[str, Any]:
    """Train in a process of its own; return what it tells.

    Raises:
        subprocess.CalledProcessError: If it fails.
    """
    command = [sys.executable, "-m", "benchmarks.studies.harms.train", kind, str(number), *more]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def tuned(kind: str, number: int) -> dict[str, Any]:
    """Train while it is tuned; return what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        found = trained(kind, number, "--live", folder)
        lines = (Path(folder) / "live.jsonl").read_bytes().splitlines()
        tried = [decode(line, LiveTried) for line in lines]
    return {
        **found,
        "became": [one.became for one in tried],
        "in_use_at_end": bool(tried) and tried[-1].became == "kept",
        "why": next((one.harm for one in tried if one.harm), "")
        or next((one.rounding.verdict for one in tried if one.rounding is not None), ""),
    }


def measure(kind: str) -> dict[str, Any]:
    """Return what came of all harms of a kind."""
    plain = [trained(kind, 0)["seconds"]]
    runs = []
    for number in range(len(HARMS[kind])):
        runs.append(tuned(kind, number))
        print(f"{kind}, {number}: {', '.join(runs[-1]['became'])}; {runs[-1]['seconds']:.1f} s", flush=True)
    plain.append(trained(kind, 0)["seconds"])
    usual = statistics.fmean(plain)
    return {
        "plain_seconds": plain,
        "runs": runs,
        "kept": sum(run["in_use_at_end"] for run in runs),
        "lost_shares": [run["seconds"] / usual - 1 for run in runs],
    }


def main(arguments: Sequence[str]) -> int:
    """Measure what is asked for and was not measured with today's code; return the exit code."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="KIND", help=", ".join(HARMS))
    parser.add_argument("--minutes", **MINUTES)
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - HARMS.keys()):
        parser.error(f"there is no kind {', '.join(unknown)}; there are {', '.join(HARMS)}")
    with ending_in_time(parsed.minutes) as seconds_left:
        for kind in to_measure("harms", parsed.names or list(HARMS)):
            if seconds_left() < ENOUGH_SECONDS:
                print(f"{kind}: left for another time", flush=True)
                continue
            made = provenance(CODE)
            found = measure(kind)
            add_row("harms", kind, found, made=made)
            print(f"{kind}: kept {found['kept']} of {len(found['runs'])}, {max(found['lost_shares']):+.1%} at most")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
