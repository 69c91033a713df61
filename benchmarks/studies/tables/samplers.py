"""Replay the samplers of `autoaccel tune --sampler` on the tables, each in autoaccel's own search with its proof.

    python -m benchmarks.studies.tables.samplers [--searches 20] [NAME ...]

Searches, halves and regret are those of simulate.py; only what proposes the trials differs. Ten splits of a table come
both ways round in twenty searches. Results go to benchmarks/results/samplers.jsonl; what is there of today's code is
not replayed again unless it is named. `cmaes` needs `pip install cmaes`, and `gp` needs scipy.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import optuna
import torch

from autoaccel.records.options import OPTUNAS_SAMPLERS, OWN_SAMPLER
from autoaccel.search.samplers import check_sampler
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import add_row, to_measure
from benchmarks.harness.table import TABLES, read_table
from benchmarks.studies.tables.halves import Splits
from benchmarks.studies.tables.proofs import History, ReplayTask, run
from benchmarks.studies.tables.simulate import CODE as SEARCH_CODE
from benchmarks.studies.tables.simulate import Searcher, files, horizons, made_from, show, simulate

CODE = (*SEARCH_CODE, "benchmarks/studies/tables/samplers.py")
SAMPLERS = (OWN_SAMPLER, *OPTUNAS_SAMPLERS)


def search_with(sampler: str) -> Searcher:
    """Return a search as `autoaccel tune --sampler` makes it, its proof included."""

    def search(task: ReplayTask) -> History:
        return run(task, sampler)

    return search


def compare(
    table: Splits, planned_steps: int, searches: int, samplers: Sequence[str] = SAMPLERS
) -> dict[str, dict[str, Any]]:
    """Return what came of this many searches on one table with each sampler."""
    found: dict[str, dict[str, Any]] = {}
    for sampler in samplers:
        start = time.process_time()
        came_to = simulate(search_with(sampler), table, planned_steps, searches)
        found[sampler] = {**came_to, "cpu_seconds": (time.process_time() - start) / searches}
    return found


def main(arguments: Sequence[str]) -> None:
    """Replay; write the results."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--searches", type=int, default=20)
    parsed = parser.parse_args(arguments)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    torch.set_num_threads(1)  # the processes that `gp` fits are too small to be shared out
    for sampler in SAMPLERS:
        check_sampler(sampler)
    for name in parsed.names or to_measure("samplers", [path.name.partition(".")[0] for path in files(TABLES)]):
        made = made_from(name, CODE)  # before, in case somebody edits the code meanwhile
        table = Splits(read_table(TABLES / f"{name}.jsonl.gz"))
        found: dict[str, Any] = {"single_pass_seconds": table.single_pass_seconds, "horizons": {}}
        for _, facts, planned in horizons([name], ("own", "50000")):
            rows = compare(table, planned, parsed.searches)
            resolution = table.resolution(planned)
            is_measured = planned == facts.table.head.facts.planned_steps
            found["horizons"][str(planned)] = {"own": is_measured, "resolution": resolution, "peers": rows}
            show(name, planned, resolution, rows)
        add_row("samplers", name, found, made=made)


if __name__ == "__main__":
    main(sys.argv[1:])
