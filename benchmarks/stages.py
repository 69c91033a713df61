"""Measure everything that the results page needs, stage after stage; it may be stopped at any time and goes on there.

    python benchmarks/stages.py [--list] [--only NAME ...]

A stage is a command of the Makefile and the results that it adds rows to. One whose rows were all measured with today's
code is left out; within a stage, what was measured before an interruption is left out by its script. The page is
written after each. Nothing else should run meanwhile, and what changes the code makes what was measured before stale.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

from report import main as write_page
from rows import ROOT, add_row, is_stale, latest, read_rows

from autoaccel.records.base import Record

INTERRUPTED = 130


class Stage(Record, frozen=True):
    """One command, and what it measures."""

    name: str
    """Of the command: `make NAME`."""
    results: dict[str, int]
    """Result -> how many rows of different names make it complete."""
    minutes: int
    """That it took on two cores."""
    needs: str = ""
    """What it installs, or must be allowed to."""


STAGES = (
    Stage("tables", {"tables": 6}, 180),
    Stage("examples", {"examples": 4}, 40),
    Stage("claims", {"claims": 14}, 80),
    Stage("simulate", {"simulation": 6, "bounds": 6}, 30),
    Stage("simulate-machines", {"simulated_machines": 6}, 30),
    Stage("live", {"live": 6}, 90),
    Stage("unseen", {"unseen": 75}, 640, "installs torchvision, timm and transformers"),
    Stage("scatter", {"scatter": 7}, 1),
    Stage("independence", {"independence": 2}, 20),
    Stage("false-wins", {"false_wins": 5}, 60),
    Stage("search-cost", {"search_cost": 1}, 5),
    Stage("neighbour", {"neighbour": 1}, 30),
    Stage("break-even", {"break_even": 2}, 30),
    Stage("planted", {"planted": 13}, 30),
    Stage("advice", {"advice": 4}, 10),
    Stage("check-verify", {"verify": 60}, 30),
    Stage("rounding", {"rounding": 376}, 60),
    Stage("check-ranks", {"ranks": 6}, 90),
    Stage("check-sharing", {"sharing": 1}, 20, "installs PostgreSQL"),
    Stage("check-knobs", {"pairs": 50}, 70),
    Stage("pruning", {"pruning": 18}, 45),
    Stage("libraries", {"libraries": 3}, 120, "installs jemalloc, tcmalloc and Intel's OpenMP"),
    Stage("check-nni", {"nni": 1}, 5, "an environment of its own"),
    Stage("check-ipex", {"ipex": 1}, 20, "an environment of its own, 7 GB"),
    Stage("check-launchers", {"launchers": 1}, 15, "installs Open MPI and Slurm"),
    Stage("check-machines", {"machines": 1}, 5, "root"),
    Stage("check-report", {"report_page": 1}, 2, "installs Chromium"),
    Stage("scaling", {"scaling": 1}, 1),
    Stage("remedies", {"remedies": 6, "held": 14}, 60),  # after what it compares with
    # Claims are measured again when they are an hour old, which those of the first time are by now.
    Stage("claims", {"claims": 14}, 60),
)


def is_complete(stage: Stage) -> bool:
    """Return whether all that the stage measures is there, measured with today's code."""
    for result, least in stage.results.items():
        # Earlier rows that no script measures any longer do not keep a stage open.
        fresh = [row for row in latest(read_rows(result)).values() if not is_stale(row)]
        if len(fresh) < least:
            return False
    return True


def run(stage: Stage) -> bool:
    """Run a stage; return whether it came to its end. If not, a row says so."""
    # Without what this program was told: make hands its own arguments on to every make that it starts.
    code = subprocess.run(["make", "--no-print-directory", "ARGS=", stage.name], cwd=ROOT, check=False).returncode
    if code == 0 or is_complete(stage):
        return True  # some commands end with 1 when what they measured is not as it should be, which their rows show
    for result in stage.results:
        add_row(result, stage.name, {}, outcome="failed", reason=f"`make {stage.name}` ended with exit code {code}")
    return False


def show(stages: Sequence[Stage]) -> None:
    """Print what there is to do, and how long it takes."""
    for stage in stages:
        what = ", ".join(f"{result}.jsonl" for result in stage.results)
        state = "complete" if is_complete(stage) else f"{stage.minutes} min"
        print(f"{stage.name:16} {state:>9}  {what}" + (f"  ({stage.needs})" if stage.needs else ""))
    minutes = sum(stage.minutes for stage in stages if not is_complete(stage))
    print(f"about {minutes / 60:.1f} h to go")


def main(arguments: Sequence[str]) -> int:
    """Run the stages that are not complete; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="show the stages, and run none")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=sorted({stage.name for stage in STAGES}))
    parsed = parser.parse_args(arguments)
    stages = [stage for stage in STAGES if not parsed.only or stage.name in parsed.only]
    if parsed.list:
        show(stages)
        return 0
    failed = []
    try:
        for stage in stages:
            if is_complete(stage):
                print(f"{stage.name}: complete", flush=True)
                continue
            print(f"{stage.name}: about {stage.minutes} min", flush=True)
            if not run(stage):
                failed.append(stage.name)
            write_page()
    except KeyboardInterrupt:
        write_page()
        print("stopped; what is finished is kept, and the same command goes on")
        return INTERRUPTED
    print(f"failed: {', '.join(failed)}" if failed else "all stages are complete, or as far as they can be now")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
