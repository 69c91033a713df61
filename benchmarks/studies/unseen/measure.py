"""Trainings that the tuner has never seen: what it hands back in its default ten minutes, beside its peers.

    python -m benchmarks.studies.unseen.measure [NAME ...] [--piece PIECE] [--half first|second] [--minutes N]

Each workload (first/, second/) is measured in pieces, and each piece is a row of benchmarks/results/unseen.jsonl:

    autoaccel     `autoaccel tune` as a user types it
    grid          the best of what a person would try by hand, measured the plain way
    optuna        Optuna's TPE in the same time, with the same objective and the user's own settings first
    run_cpu       the launcher torch.backends.xeon.run_cpu in the best of its modes
    side_by_side  what all of these have chosen, the user's own settings and "everything on", in rounds of fresh
                  processes that take turns: ratios with intervals. Without `optuna` or `run_cpu` where they have not
                  been measured; again when something else is chosen

What was measured with today's code on a CPU like this one is left out. A workload is measured whole before the next one
is begun: choices can be compared where they were made on the same CPU. It may be stopped at any time: readings of the
grid and rounds are kept one by one in autoaccel-runs/unseen; a tune or a search by Optuna is begun only where eleven of
the minutes are left.
Nothing else should run meanwhile. `--seconds` (for each search) and `--rounds` try it in small, and add no row.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import optuna

from autoaccel.errors import AutoaccelError
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KnobContext, baseline_settings, environment_of
from autoaccel.space.search_space import load_space
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.starter import WorkerStarter
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import MINUTES, above_zero, at_least, ending_in_time
from benchmarks.harness.rows import ROOT, Row, add_row, digest, latest, of_this_cpu, provenance, read_rows
from benchmarks.harness.side_by_side import Pick, everything_on
from benchmarks.studies.unseen.pieces import (
    CODE,
    PIECES,
    Choices,
    choices_in,
    row_name,
    to_measure,
    why_later,
)
from benchmarks.studies.unseen.rounds import ROUNDS, Expected, compare
from benchmarks.studies.unseen.scores import baseline_step_seconds, scored
from benchmarks.studies.unseen.searches import Case, Grid, effective, launch_by_run_cpu, search_by_optuna, search_grid
from benchmarks.studies.unseen.suite import HALVES, half_of, workloads
from benchmarks.studies.unseen.tunes import tune

SPACE = ROOT / "benchmarks" / "spaces" / "unseen.toml"
START_SECONDS = 600.0  # until the training is described


def measure(
    piece: str, path: Path, rows: Mapping[str, Row], folder: Path, seconds: float | None, rounds: int
) -> dict[str, Any]:
    """Return what came of one piece.

    Args:
        piece: Any.
        path: Of the workload.
        rows: That were measured before.
        folder: Of what is kept until the piece is whole.
        seconds: Of each search; None: the default.
        rounds: Side by side, at most.

    Raises:
        AutoaccelError: If the workload does not train as it is.
    """
    if piece == "autoaccel":
        return tune(path, folder / "autoaccel", seconds)
    workload = find_workload(str(path))
    with tempfile.TemporaryDirectory() as scratch, WorkerStarter(Path(scratch), workload) as starter:
        context = KnobContext(*probe_and_describe(starter, workload, START_SECONDS))
        assert context.training is not None  # it was described
        baseline = baseline_settings(context)
        case = Case(
            path.stem,
            path,
            baseline,
            load_space(str(SPACE), context),
            context.training.planned_steps,
            context.training.steps_per_epoch,
            folder,
            seconds,
            functools.partial(environment_of, context=context, at_start_only=True),
        )
        if piece == "side_by_side":
            starter = starter.at(context)
            by_hand = rows[row_name(path.stem, "grid")].found
            choices = choices_in(rows, path.stem)
            return side_by_side(starter, case, choices, by_hand, rounds)
    if piece == "run_cpu":
        return launch_by_run_cpu(case)
    grid = Grid(case)
    if grid.baseline.failure:
        raise AutoaccelError(f"under the user's own settings: {grid.baseline.failure}")
    return search_grid(case, grid) if piece == "grid" else search_by_optuna(case, grid)


def side_by_side(
    starter: WorkerStarter, case: Case, choices: Choices, by_hand: Mapping[str, Any], rounds: int
) -> dict[str, Any]:
    """Return what everybody's choice is worth, measured in the same rounds.

    Args:
        starter: That starts processes.
        case: The workload.
        choices: Of those who searched.
        by_hand: What came of the grid.
        rounds: At most.
    """
    picked = {
        who: Pick({**case.baseline, **one["settings"]}, one.get("environment", {}), tuple(one.get("affinity", ())))
        for who, one in choices.items()
    }
    every = effective(everything_on(case.baseline, case.space.open), case.baseline, by_hand.get("in_vain", {}))
    picks = {"own": Pick(case.baseline), **picked, "everything on": Pick(every)}
    startup_seconds = by_hand["startup_seconds"]
    found = compare(starter, case, picks, Expected(by_hand["own_step_seconds"], startup_seconds), rounds)
    taken = [one.taken for one in found]
    return {
        "choices": choices,
        "planned_steps": case.planned_steps,
        "own_step_seconds": baseline_step_seconds(taken),
        "startup_seconds": startup_seconds,
        "picks": scored(picks, taken, case.planned_steps, startup_seconds),
        "rounds": msgspec.to_builtins(found),
    }


def name_of(path: Path) -> str:
    """Return a file as the rows name it."""
    return path.relative_to(ROOT).as_posix()


def kept_folder(path: Path, piece: str) -> Path:
    """Return where parts of a piece are kept: for as long as the code that decides on it is the same."""
    code = " ".join(digest(one) for one in (*CODE[piece], name_of(path)))
    return ROOT / "autoaccel-runs" / "unseen" / hashlib.sha256(code.encode()).hexdigest()[:16] / path.stem


def show(name: str, found: Mapping[str, Any]) -> None:
    """Print what came of a piece."""
    if "summary" in found or "said" in found:
        print(f"{name}: {found.get('summary') or found['said']}", flush=True)
    elif "choice" in found:
        print(f"{name}: {found['choice']} after {found['search_seconds']:.0f} s", flush=True)
    for who, row in found.get("picks", {}).items():
        speed = f"steps {row['steps'][0]:.2f}x, run {row['run']:.2f}x" if "run" in row else "does not train"
        print(f"  {who:14} {speed}  {row['settings']}", flush=True)


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line; `paths` and `pieces` are what it asks for."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(workloads()))
    parser.add_argument("--piece", action="append", choices=PIECES, help="only this one; may be repeated")
    parser.add_argument("--half", choices=HALVES, help="only this half of the suite")
    parser.add_argument("--minutes", **MINUTES)
    parser.add_argument("--seconds", type=above_zero, help="for each search; adds no row")
    parser.add_argument("--rounds", type=at_least(1), default=ROUNDS, help="side by side; another number adds no row")
    parsed = parser.parse_args(arguments)
    paths = {name: path for name, path in workloads().items() if parsed.half in (None, half_of(path))}
    if unknown := sorted(set(parsed.names) - paths.keys()):
        parser.error(f"there is no workload {', '.join(unknown)} here; there are {', '.join(paths)}")
    parsed.pieces = parsed.piece or PIECES
    parsed.paths = {name: paths[name] for name in parsed.names or paths}
    return parsed


def main(arguments: Sequence[str]) -> int:
    """Measure what is wanted and was not measured with today's code; return the exit code."""
    parsed = read_arguments(arguments)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    tried, failed = parsed.seconds is not None or parsed.rounds != ROUNDS, False
    rows = {} if tried else latest(of_this_cpu(read_rows("unseen")))
    left: set[str] = set()  # workloads of which a piece was left for another time
    with tempfile.TemporaryDirectory() as scratch, ending_in_time(parsed.minutes) as seconds_left:
        for workload, piece in to_measure(rows, list(parsed.paths), parsed.pieces):
            path, name = parsed.paths[workload], row_name(workload, piece)
            if why := why_later(rows, workload, piece, math.inf if tried else seconds_left(), left):
                left.add(workload)
                print(f"{name}: left for another time: {why}", flush=True)
                continue
            made = provenance((*CODE[piece], name_of(path)))
            folder = Path(scratch) / workload if tried else kept_folder(path, piece)
            try:
                found = measure(piece, path, rows, folder, parsed.seconds, parsed.rounds)
            except AutoaccelError as error:
                failed = True
                print(f"{name}: {error}", file=sys.stderr, flush=True)
                if not tried:
                    add_row("unseen", name, {}, made=made, status="failed", reason=str(error))
                continue
            rows[name] = Row(name, "measured", "", made, {"half": half_of(path), **found})
            if not tried:
                add_row("unseen", name, rows[name].found, made=made)
            show(name, found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
