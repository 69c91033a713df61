"""Trainings that the tuner has never seen: what it hands back in its default ten minutes, beside its peers.

    python benchmarks/unseen/measure.py [NAME ...] [--half first|second] [--seconds S] [--rounds N]

For each workload (first/, second/): `autoaccel tune` as a user types it; the best of a grid that a person would try by
hand, measured the plain way; Optuna's TPE in the same time, with the same objective and the user's own settings first;
"everything on"; and the launcher torch.backends.xeon.run_cpu in the best of its modes. In the end all picks side by
side in rounds of fresh processes, and their ratios with intervals.

Results go to benchmarks/results/unseen.jsonl, a row for each workload; what is there of today's code is not measured
again unless it is named. It may be stopped at any time: searches and rounds that have ended are kept in
autoaccel-runs/unseen, those of the peers for as long as their code is the same. About an hour for a workload, in which
nothing else should run. `--seconds` (for each search) and `--rounds` try it in small and add no row.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import optuna

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from rows import add_row, digest, provenance, runs_folder, to_measure  # noqa: E402
from scores import own_step_seconds, scored  # noqa: E402
from searches import Case, Grid, peers_picks, pick_of_autoaccel, tune  # noqa: E402
from side_by_side import Pick, Taken, everything_on, measure_round  # noqa: E402
from suite import HALVES, half_of, workloads  # noqa: E402

from autoaccel.errors import AutoaccelError  # noqa: E402
from autoaccel.launch.runner import Runner  # noqa: E402
from autoaccel.session.turn_plan import plan_turns  # noqa: E402
from autoaccel.session.workers import probe_and_describe  # noqa: E402
from autoaccel.session.workloads import find_workload  # noqa: E402
from autoaccel.space.knobs import Place, baseline_settings  # noqa: E402
from autoaccel.space.search_space import load_space  # noqa: E402

SPACE = ROOT / "benchmarks" / "tables" / "all.toml"
PEERS_CODE = (
    "autoaccel/runtime/applied.py",
    "autoaccel/runtime/knobs",
    "autoaccel/space/knobs",
    "benchmarks/peers.py",
    "benchmarks/side_by_side.py",
    "benchmarks/tables/all.toml",
    "benchmarks/unseen/plain.py",
    "benchmarks/unseen/searches.py",
    "benchmarks/unseen/suite.py",
)
CODE = (
    "autoaccel",
    "benchmarks/unseen/measure.py",
    "benchmarks/unseen/scores.py",
    *(path for path in PEERS_CODE if not path.startswith("autoaccel")),
)
START_SECONDS = 600.0  # until a process has warmed up, a first compilation included
ROUNDS, TURNS = 6, 8


def measure(name: str, path: Path, seconds: float | None, rounds: int, folder: Path, peers: Path) -> dict[str, Any]:
    """Return what the contenders' picks are worth on one workload."""
    workload = find_workload(str(path))
    with tempfile.TemporaryDirectory() as scratch, Runner(Path(scratch), workload) as runner:
        place = Place(*probe_and_describe(runner, workload, START_SECONDS))
        assert place.training is not None
        own = baseline_settings(place)
        space = load_space(str(SPACE), place, own)
        planned, per_epoch = place.training.planned_steps, place.training.steps_per_epoch
        case = Case(name, path, own, space, planned, per_epoch, folder, peers, seconds)
        runner.enter(place)
        tuned = tune(case)
        grid = Grid(case)
        if grid.own.failure:
            raise AutoaccelError(f"under the user's own settings: {grid.own.failure}")
        picks = {
            "own": Pick(own),
            "autoaccel": pick_of_autoaccel(case, tuned),
            **peers_picks(case, grid),
            "everything on": Pick(everything_on(own, space.open)),
        }
        taken = compare(runner, case, picks, rounds, grid.own.step_seconds)
    return {
        "half": half_of(path),
        "planned_steps": planned,
        "own_step_seconds": own_step_seconds(taken),
        "startup_seconds": grid.startup_seconds,
        "wait_share": grid.own.wait_share,
        "rounds": rounds,
        "tune": tuned,
        "picks": scored(picks, taken, planned, grid.startup_seconds),
        "grid": [msgspec.to_builtins(reading) for reading in grid.readings],
        "taken": [{who: list(one) for who, one in found.items()} for found in taken],
    }


def compare(
    runner: Runner, case: Case, picks: Mapping[str, Pick], rounds: int, step_seconds: float
) -> list[dict[str, Taken]]:
    """Return so many rounds of all picks side by side; those that were measured before are taken as they are."""
    key = hashlib.sha256(json.dumps([asdict(pick) for pick in picks.values()], sort_keys=True).encode()).hexdigest()
    path = case.folder / f"rounds-{key[:16]}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_text().splitlines() if path.exists() else []
    found = [{who: Taken(*one) for who, one in json.loads(line).items()} for line in lines[:rounds]]
    order = plan_turns(step_seconds).order
    for number in range(len(found), rounds):
        # A pick that has failed does not cost each round its ten minutes.
        left = {who: pick for who, pick in picks.items() if who == "own" or all(who in one for one in found if one)}
        taken = measure_round(runner, left, number, order, TURNS, case.steps_per_epoch, START_SECONDS)
        with path.open("a") as file:
            file.write(json.dumps(taken) + "\n")
        found.append(taken)
        speeds = ", ".join(f"{who} {math.exp(one.log_speedup):.2f}x" for who, one in taken.items())
        print(f"{case.name} side by side, round {number + 1}/{rounds}: {speeds or 'own settings failed'}", flush=True)
    return found


def name_of(path: Path) -> str:
    """Return a file as the rows name it."""
    return path.relative_to(ROOT).as_posix()


def peers_folder(path: Path) -> Path:
    """Return where the peers' readings of a workload lie: they outlive changes of what they do not depend on."""
    code = " ".join(digest(one) for one in (*PEERS_CODE, name_of(path)))
    return ROOT / "autoaccel-runs" / "unseen-peers" / hashlib.sha256(code.encode()).hexdigest()[:16] / path.stem


def show(name: str, found: Mapping[str, Any]) -> None:
    """Print what came of a workload."""
    print(f"{name}: {found['tune'].get('summary', found['tune']['said'])}")
    for who, row in found["picks"].items():
        speed = f"steps {row['steps'][0]:.2f}x, run {row['run']:.2f}x" if "run" in row else "does not train"
        print(f"  {who:14} {speed}  {row['settings']}")


def main(arguments: Sequence[str]) -> int:
    """Measure these workloads, or all of a half that were not measured with today's code; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(workloads()))
    parser.add_argument("--half", choices=HALVES, help="only this half of the suite")
    parser.add_argument("--seconds", type=float, help="for each search; adds no row")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the final comparison; others add no row")
    parsed = parser.parse_args(arguments)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    paths = {name: path for name, path in workloads().items() if parsed.half in (None, half_of(path))}
    if unknown := sorted(set(parsed.names) - paths.keys()):
        parser.error(f"there is no workload {', '.join(unknown)}; there are {', '.join(paths)}")
    tried, failed = parsed.seconds is not None or parsed.rounds != ROUNDS, False
    for name in parsed.names or to_measure("unseen", paths):
        path = paths[name]
        made = provenance((*CODE, name_of(path)))
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / name if tried else runs_folder("unseen") / digest(name_of(path)) / name
            peers = Path(scratch) / "peers" if tried else peers_folder(path)
            try:
                found = measure(name, path, parsed.seconds, parsed.rounds, folder, peers)
            except AutoaccelError as error:
                failed = True
                print(f"{name}: {error}", file=sys.stderr)
                if not tried:
                    add_row("unseen", name, {}, made=made, outcome="failed", reason=str(error))
                continue
        if not tried:
            add_row("unseen", name, found, made=made)
        show(name, found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
