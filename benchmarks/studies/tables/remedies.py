"""Bounds with measured rates, and what each remedy wins alone, on the same machine: what the tables cannot tell.

    python -m benchmarks.studies.tables.remedies [--times 3] [--rounds 5] [NAME ...]

Each workload is profiled several times, rates included; then every remedy that findings bound is measured alone, in
turns with the baseline, once in each round. Results go to benchmarks/results/remedies.jsonl, which held.py compares;
five to fifteen minutes for a workload, in which nothing else should run.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autoaccel.advise.diagnosing import diagnose
from autoaccel.machine.conditions import Watch
from autoaccel.records.advice import Diagnosis
from autoaccel.records.messages import Failure
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Measurement
from autoaccel.runs.workloads import find_workload
from autoaccel.workers.profiling import ask_profile, profile_task
from autoaccel.workers.starter import WorkerStarter
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row, to_measure
from benchmarks.harness.table import TableHead
from benchmarks.studies.tables.held import KINDS, bounds_of
from benchmarks.studies.tables.measure import (
    TIMEOUT_SECONDS,
    WORKLOADS,
    make_head,
    middle_ratio,
    start_baseline,
    turn_taker,
    visit,
)

CODE = ("autoaccel", "benchmarks/studies/tables/remedies.py")
_PROFILE_SECONDS = 2.0


def take_diagnosis(starter: WorkerStarter, head: TableHead) -> Diagnosis:
    """Return what advice says of the baseline, with rates."""
    watch = Watch.begin()
    task = profile_task(head.machine, _PROFILE_SECONDS)
    answer = ask_profile(starter, task, head.baseline_settings, TIMEOUT_SECONDS)
    if isinstance(answer, Failure):
        sys.exit(f"the profile failed: {answer.message}")
    return diagnose(answer, head.machine, head.facts, watch.conditions())


def single_remedies(head: TableHead) -> list[tuple[str, str, Settings]]:
    """Return kind, words and settings of each remedy that changes one knob alone."""
    found = []
    for kind, (knob, *_) in KINDS.items():
        for value in head.space.open.get(knob, ()):
            settings: Settings = {**head.baseline_settings, knob: value}
            if value != head.baseline_settings[knob] and head.space.allows(settings):
                found.append((kind, f"{knob}={value}", settings))
    return found


def measure(name: str, times: int, rounds: int) -> dict[str, Any]:
    """Return the bounds and the gains of each remedy of one workload."""
    with (
        tempfile.TemporaryDirectory(prefix="autoaccel-remedies-") as folder,
        WorkerStarter(Path(folder), find_workload(str(ROOT / WORKLOADS[name][0]))) as starter,
    ):
        head = make_head(starter, name)
        diagnoses = [take_diagnosis(starter, head) for _ in range(times)]
        bounds = [bounds_of(diagnosis.findings) for diagnosis in diagnoses]
        remedies = single_remedies(head)
        logs: list[list[float]] = [[] for _ in remedies]
        for number in range(1, rounds + 1):
            baseline = start_baseline(starter, head.baseline_settings, number)
            taker = turn_taker(head)
            for (_, _, settings), found in zip(remedies, logs, strict=True):
                seen = visit(starter, baseline, taker, number, settings, cold=False)
                if isinstance(seen.outcome, Measurement) and seen.trusted:
                    found.append(math.log(middle_ratio(seen)))
            baseline.close()
    return {
        "remedies": [
            {
                "kind": kind,
                "change": words,
                "bounds": [bound[KINDS[kind][0]] for bound in bounds],
                "logs": found,
            }
            for (kind, words, _), found in zip(remedies, logs, strict=True)
            if found
        ],
        "profiles": [diagnosis.profile for diagnosis in diagnoses],
        "limits": [diagnosis.ceilings for diagnosis in diagnoses],
    }


def main(arguments: Sequence[str]) -> None:
    """Measure; add the rows."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", choices=[*WORKLOADS, []], default=[])
    parser.add_argument("--times", type=int, default=3, help="profiles")
    parser.add_argument("--rounds", type=int, default=5)
    parsed = parser.parse_args(arguments)
    for name in parsed.names or to_measure("remedies", WORKLOADS):
        found = measure(name, parsed.times, parsed.rounds)
        add_row("remedies", name, found, code=CODE)
        for remedy in found["remedies"]:
            gains = ", ".join(f"{math.exp(log):.2f}" for log in remedy["logs"])
            print(f"{name} {remedy['change']}: at most {max(remedy['bounds']):.2f}x, won {gains}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
