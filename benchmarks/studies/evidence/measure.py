"""What proofs are worth where a metric is hard to judge: recipes beside settings that were fixed beforehand.

    python -m benchmarks.studies.evidence.measure [NAME ...] [--rounds N] [--minutes N]

Each function in trainings/ that returns a training is tuned as a user would tune it. Then its recipe, the user's own
settings and those of `FIXED` are measured in rounds of fresh processes that take turns. A row of
benchmarks/results/evidence.jsonl says what each of them is worth over the announced trainings, and how much of the
tune went into training runs of settings whose metric they did not decide.

`--rounds` tries it in small, and adds no row. Nothing else should run meanwhile.
"""

from __future__ import annotations

import ast
import functools
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autoaccel.errors import AutoaccelError
from autoaccel.records.base import decode
from autoaccel.records.contender import OPEN, ContenderResult
from autoaccel.records.messages import Failure
from autoaccel.records.proof import ProofPair
from autoaccel.records.settings import Settings, settings_key
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KnobContext, baseline_settings, environment_of
from autoaccel.space.search_space import load_space
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.starter import WorkerStarter
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import MINUTES, at_least, ending_in_time
from benchmarks.harness.rows import ROOT, add_row, provenance, to_measure
from benchmarks.harness.side_by_side import Pick
from benchmarks.studies.unseen.rounds import Expected, compare
from benchmarks.studies.unseen.scores import scored
from benchmarks.studies.unseen.searches import Case
from benchmarks.studies.unseen.tunes import tune

TRAININGS = Path(__file__).with_name("trainings")
CODE = ("autoaccel", "benchmarks/studies/evidence")
FIXED: Mapping[str, Settings] = {
    "kept memory": {"memory.keep_freed": True},
    "channels last": {"layout.channels_last": True},
    "fused optimizer": {"optimizer.fused": True},
    "bfloat16": {"precision.autocast": "bfloat16"},
    "two workers": {"loader.workers": 2},
    "compiled": {"compile.mode": "default"},
    "two ranks": {"parallel.world_size": 2},
    "all but ranks": {
        "memory.keep_freed": True,
        "layout.channels_last": True,
        "optimizer.fused": True,
        "loader.workers": 1,
    },
}
"""What a person might have typed without measuring; written down before any of the trainings had been run."""
REDRAWS = ("two ranks",)
"""Of these, what changes the training beyond rounding: each rank draws its own."""
START_SECONDS, STARTUP_SECONDS = 600.0, 4.0
ROUNDS = 3
ENOUGH_SECONDS = 700.0  # of the time that is left, to begin another training


def trainings() -> Iterator[tuple[str, Path]]:
    """Yield name and file of every training, in the order of their files."""
    for path in sorted(TRAININGS.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if (
                isinstance(node, ast.FunctionDef)
                and not node.args.args
                and ast.unparse(node.returns or node).endswith("Training")
            ):
                yield node.name, path


def undecided_seconds(folder: Path, metric_seconds: float) -> float:
    """Return what of the time for training runs went into settings whose metric these did not decide.

    Args:
        folder: Of the tune.
        metric_seconds: That its runs took.
    """
    undecided = {settings_key(one.settings) for one in _lines(folder / "contenders.jsonl", ContenderResult)
                 if one.result in OPEN}  # fmt: skip
    trained = [settings_key(one.settings) for one in _lines(folder / "proof.jsonl", ProofPair) if one.trained]
    return metric_seconds * sum(one in undecided for one in trained) / max(1, len(trained))


def _lines(path: Path, kind: Any) -> list[Any]:
    return [decode(line, kind) for line in path.read_bytes().splitlines()] if path.exists() else []


def measure(name: str, path: Path, rounds: int) -> dict[str, Any]:
    """Return what came of one training.

    Args:
        name: Of the function.
        path: Of its file.
        rounds: Side by side.

    Raises:
        AutoaccelError: If it does not train as it is.
    """
    target = path.with_name(f"{path.name}:{name}")
    folder = ROOT / "autoaccel-runs" / "evidence" / name
    tuned = tune(target, folder / "tune", None)
    workload = find_workload(str(target))
    with tempfile.TemporaryDirectory() as scratch, WorkerStarter(Path(scratch), workload) as starter:
        context = KnobContext(*probe_and_describe(starter, workload, START_SECONDS))
        assert context.training is not None  # it was described
        own = baseline_settings(context)
        space = load_space("default", context)
        case = Case(
            name,
            path,
            own,
            space,
            context.training.planned_steps,
            context.training.steps_per_epoch,
            Path(scratch),
            None,
            functools.partial(environment_of, context=context, at_start_only=True),
        )
        picks = {"own": Pick(own), "recipe": Pick({**own, **tuned["choice"]["settings"]})}
        for who, settings in FIXED.items():
            open_here = {knob: value for knob, value in settings.items() if value in space.open.get(knob, ())}
            if open_here:
                picks[who] = Pick({**own, **open_here})
        step_seconds = tuned.get("own_step_seconds") or _first_step_seconds(starter.at(context), own)
        found = compare(starter.at(context), case, picks, Expected(step_seconds, STARTUP_SECONDS), rounds)
    taken = [one.taken for one in found]
    worth = scored(picks, taken, case.planned_steps, STARTUP_SECONDS)
    stages = {one["stage"]: one["spent_seconds"] for one in tuned.get("search", {}).get("stages", ())}
    return {
        **tuned,
        "picks": worth,
        "over_best": _over_best(worth),
        "undecided_seconds": undecided_seconds(folder / "tune", stages.get("metric", 0.0)),
    }


def _first_step_seconds(starter: WorkerStarter, own: Settings) -> float:
    """Return the step time of the user's own settings where no recipe tells it.

    Raises:
        AutoaccelError: If they fail.
    """
    measuring = starter.start_measuring(own, "own", START_SECONDS)
    if isinstance(measuring, Failure):
        raise AutoaccelError(f"under the user's own settings: {measuring.message}")
    step_seconds = measuring.warm_step_seconds
    measuring.close()
    return step_seconds


def _over_best(worth: Mapping[str, Mapping[str, Any]]) -> float:
    """Return the recipe's worth over that of the best settings that do not change the training, own ones among them."""
    best = max(row["run"] for who, row in worth.items() if who not in ("recipe", *REDRAWS) and "run" in row)
    return float(worth["recipe"]["run"] / best)


def main(arguments: Sequence[str]) -> int:
    """Measure what is asked for and was not measured with today's code; return the exit code."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(name for name, _ in trainings()))
    parser.add_argument("--rounds", type=at_least(1), default=ROUNDS, help="side by side; another number adds no row")
    parser.add_argument("--minutes", **MINUTES)
    parsed = parser.parse_args(arguments)
    known = dict(trainings())
    if unknown := sorted(set(parsed.names) - known.keys()):
        parser.error(f"there is no training {', '.join(unknown)}; there are {', '.join(known)}")
    names = parsed.names or list(known)
    with ending_in_time(parsed.minutes) as seconds_left:
        for name in names if parsed.rounds != ROUNDS else to_measure("evidence", names):
            if seconds_left() < ENOUGH_SECONDS:
                print(f"{name}: left for another time", flush=True)
                continue
            made = provenance(CODE)
            found = measure(name, known[name], parsed.rounds)
            if parsed.rounds == ROUNDS:
                add_row("evidence", name, found, made=made)
            print(f"{name}: {found['over_best']:.2f} of the best; {found['said']}", flush=True)
            for who, row in found["picks"].items():
                speed = f"steps {row['steps'][0]:.2f}x, run {row['run']:.2f}x" if "run" in row else "does not train"
                print(f"  {who:16} {speed}  {row['settings']}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
