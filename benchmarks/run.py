"""Run checks and studies: all that the results page needs, or those that are named.

    python -m benchmarks.run [NAME ...] [--list] [--minutes N]
    python -m benchmarks.run NAME -- ARGUMENTS OF ITS SCRIPT

catalogue.py declares them. Without a name, everything runs whose rows were not all measured with today's code, one
after the other. What is named runs in any case. You may stop it at any time: finished work is kept, and scripts skip
what today's code has measured. The page is written after each. Nothing else should run on the machine meanwhile, and a
change of the code makes earlier rows stale.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks.catalogue import BENCHMARKS, Benchmark
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import MINUTES
from benchmarks.harness.rows import ROOT, add_row, digest, is_stale, latest, read_rows
from benchmarks.page.write import main as write_page

INTERRUPTED = 130
_CANNOT_RUN = 2  # exit code of a script that cannot run here, or with these arguments
_NOT_FOUND = 127  # as a shell says it


def is_complete(benchmark: Benchmark) -> bool:
    """Return whether all that it measures is there, measured with today's code."""
    for result, least in benchmark.rows.items():
        rows = list(latest(read_rows(result)).values())
        today = {path: digest(path) for path in {path for row in rows for path in row.made.code}}
        # Earlier rows that no script measures any longer do not keep it open.
        if sum(not is_stale(row, today) for row in rows) < least:
            return False
    return bool(benchmark.rows)


def commands(benchmark: Benchmark, arguments: Sequence[str]) -> list[list[str]]:
    """Return what is started, one after the other: what it needs is installed, then comes its script."""
    found = []
    if benchmark.packages:
        found.append(["apt-get", "install", "-y", "--no-install-recommends", *benchmark.packages])
    if benchmark.extra:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        found.append([*pip, "--constraint", "constraints.txt", "--editable", f".[{benchmark.extra}]"])
    return [*found, [sys.executable, "-m", f"benchmarks.{benchmark.module}", *arguments]]


def run(benchmark: Benchmark, arguments: Sequence[str] = (), limit: Sequence[str] = ()) -> int:
    """Run one; return its exit code. If it failed, a row says so.

    Args:
        benchmark: Any.
        arguments: Typed for its script; a failure is no result then.
        limit: The option that limits its time.
    """
    code, command = 0, [""]
    for command in commands(benchmark, [*limit, *arguments]):
        try:
            code = subprocess.run(command, cwd=ROOT, check=False).returncode
        except FileNotFoundError:
            code = _NOT_FOUND
        if code:
            break
    # Some scripts end with 1 when what they measured is not as it should be, which their rows show.
    if code and code != _CANNOT_RUN and not arguments and not is_complete(benchmark):
        for result in benchmark.rows:
            words = ["python" if word == sys.executable else word for word in command]
            reason = f"`{' '.join(words)}` ended with exit code {code}"
            add_row(result, benchmark.name, {}, status="failed", reason=reason)
    return code


def run_all(benchmarks: Sequence[Benchmark], arguments: Sequence[str], minutes: float) -> dict[str, int]:
    """Run these; return the exit code of each that failed.

    Args:
        benchmarks: In their order.
        arguments: For their scripts.
        minutes: The time limit; a script that cannot end in time runs only if its usual time fits.
    """
    end = time.monotonic() + 60 * minutes
    failed: dict[str, int] = {}
    for benchmark in benchmarks:
        left = (end - time.monotonic()) / 60
        if left <= (0 if benchmark.ends_in_time else benchmark.minutes):
            print(f"{benchmark.name}: left for another time: it takes about {show_minutes(benchmark)}", flush=True)
            continue
        print(f"{benchmark.name}: about {show_minutes(benchmark)}", flush=True)
        limit = ["--minutes", f"{left:.2f}"] if math.isfinite(left) and benchmark.ends_in_time else []
        if code := run(benchmark, arguments, limit):
            failed[benchmark.name] = code
        write_page()
    return failed


def run_incomplete(minutes: float) -> dict[str, int]:
    """Run what is not complete and need not be named; then the second half of what has one."""
    end = time.monotonic() + 60 * minutes
    failed: dict[str, int] = {}
    usual = [one for one in BENCHMARKS if not one.is_asked_for]
    for benchmarks in (usual, [one for one in usual if one.is_twofold]):
        for benchmark in benchmarks:
            if is_complete(benchmark):
                print(f"{benchmark.name}: complete", flush=True)
            else:
                failed |= run_all([benchmark], (), (end - time.monotonic()) / 60)
    return failed


def show_minutes(benchmark: Benchmark) -> str:
    """Return how long it takes, as people say it."""
    minutes = benchmark.minutes
    return f"{minutes} min" if minutes < 100 else f"{minutes / 60:.0f} h"


def show(benchmarks: Sequence[Benchmark]) -> None:
    """Print what there is, what of it is complete, and how long the rest takes."""
    left = 0
    for benchmark in sorted(benchmarks, key=lambda one: one.kind):
        complete = is_complete(benchmark)
        left += 0 if complete or benchmark.is_asked_for else benchmark.minutes
        state = "complete" if complete else show_minutes(benchmark)
        print(f"{benchmark.kind:6} {benchmark.name:18} {state:>8}  {benchmark.help}")
        print(f"{'':36}{'; '.join(details(benchmark))}")
    print(f"about {left / 60:.1f} h to go")


def details(benchmark: Benchmark) -> list[str]:
    """Return where its rows are, what it needs, and whether it must be asked for."""
    needs = [benchmark.needs] if benchmark.needs else []
    asked = ["only if it is named"] if benchmark.is_asked_for else []
    twice = ["once more an hour later"] if benchmark.is_twofold else []
    return [*(f"{result}.jsonl" for result in benchmark.rows), *needs, *asked, *twice]


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line; `benchmarks` are those that are named, `rest` is what stands after `--`."""
    own, rest = list(arguments), []
    if "--" in own:
        own, rest = own[: own.index("--")], own[own.index("--") + 1 :]
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of checks and studies; --list shows them")
    parser.add_argument("--list", action="store_true", help="show them, and run none")
    parser.add_argument("--minutes", **MINUTES)
    parsed = parser.parse_args(own)
    known = {one.name: one for one in BENCHMARKS}
    if unknown := sorted(set(parsed.names) - known.keys()):
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    if rest and len(parsed.names) != 1:
        parser.error("arguments after -- are one script's: name one check or study")
    parsed.benchmarks, parsed.rest = [known[name] for name in parsed.names], rest
    return parsed


def main(arguments: Sequence[str]) -> int:
    """Run what is named, or what is not complete; return the exit code."""
    parsed = read_arguments(arguments)
    if parsed.list:
        show(parsed.benchmarks or BENCHMARKS)
        return 0
    minutes = math.inf if parsed.minutes is None else parsed.minutes
    try:
        named = parsed.benchmarks
        failed = run_all(named, parsed.rest, minutes) if named else run_incomplete(minutes)
    except KeyboardInterrupt:
        write_page()
        print("stopped; finished work is kept, and the same command resumes")
        return INTERRUPTED
    if failed:
        print(f"failed: {', '.join(failed)}")
    return next(iter(failed.values())) if len(parsed.names) == 1 and failed else int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
