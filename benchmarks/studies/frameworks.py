"""Scripts of well-known trainers, unchanged: what their recipe is worth beside what their own options reach by hand.

    python -m benchmarks.studies.frameworks [NAME ...] [--minutes N]

Each script of tests/scripts/frameworks is tuned in a folder of its own, as a user types it. Then three of its runs are
measured side by side, in rounds of fresh processes that take turns: as it is, with the recipe, and with the options
that its framework offers for speed (`--precision bf16-mixed`, `--bf16`, `--amp --channels-last`). Rows go to
benchmarks/results/frameworks.jsonl. Nothing else should run meanwhile.
"""

from __future__ import annotations

import contextlib
import functools
import math
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autoaccel.records.settings import Settings
from autoaccel.session.workloads import find_workload
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.statistics.turn_plan import plan_turns, turns_worth
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.starter import WorkerStarter
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import LEAVING_SECONDS, MINUTES, ending_in_time
from benchmarks.harness.rows import ROOT, add_row, to_measure
from benchmarks.harness.side_by_side import RoundPlan, Taken, mean_and_radius, take_turns
from benchmarks.studies.unseen.tunes import tune

SCRIPTS = ROOT / "tests" / "scripts" / "frameworks"
BY_HAND = {
    "lit_digits": ("--precision", "bf16-mixed"),
    "bert_trainer": ("--bf16",),
    "accelerated": ("--mixed_precision", "bf16"),
    "timm_train": ("--amp", "--channels-last"),
}
"""Script -> the arguments by which its own framework makes it faster here."""

ROUNDS = 5
_START_SECONDS = 300.0  # until a process has warmed up
_START = 8.0  # seconds that importing such a framework takes, about
_WHOLE_SECONDS = 1200.0  # a tune and the rounds


def measure(name: str, seconds: float | None) -> dict[str, Any]:
    """Return what came of a script: its recipe, and what that is worth beside its own options.

    Args:
        name: Of the script.
        seconds: Budget of the tune; None for the default.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / name
        folder.mkdir()
        path = folder / "train.py"
        shutil.copy(SCRIPTS / f"{name}.py", path)
        found = tune(path, folder / "autoaccel-runs" / "train", seconds, inside=folder)
        with contextlib.chdir(folder):
            found["rounds"] = rounds(Path(scratch), BY_HAND[name], found["choice"]["settings"])
    logs = {who: [taken[who].log_speedup for taken in found["rounds"] if who in taken] for who in ("recipe", "by hand")}
    found["speedups"] = {who: _interval(each) for who, each in logs.items()}
    pairs = zip(logs["recipe"], logs["by hand"], strict=False)
    found["of_by_hand"] = _interval([recipe - by_hand for recipe, by_hand in pairs])
    found["rounds"] = [{who: one._asdict() for who, one in taken.items()} for taken in found["rounds"]]
    return found


def rounds(scratch: Path, by_hand: Sequence[str], changes: Settings) -> list[dict[str, Taken]]:
    """Return what each round shows of the script in the working folder.

    Args:
        scratch: Where logs may go.
        by_hand: Arguments of its own for speed.
        changes: Of the recipe, from the script's own settings.
    """
    with contextlib.ExitStack() as stack:

        def starter_of(arguments: Sequence[str]) -> tuple[WorkerStarter, KnobContext, Settings]:
            workload = find_workload("train.py", arguments)
            logs = scratch / f"logs{'-'.join(arguments)}"
            logs.mkdir()
            starter = stack.enter_context(WorkerStarter(logs, workload))
            context = KnobContext(*probe_and_describe(starter, workload, _START_SECONDS))
            return starter.at(context), context, baseline_settings(context)

        own, context, settings = starter_of(())
        hand, _, hand_settings = starter_of(by_hand)
        begin = functools.partial(own.start_measuring, timeout_seconds=_START_SECONDS, fresh=True)
        starts = {
            "own": functools.partial(begin, settings, "own"),
            "recipe": functools.partial(begin, {**settings, **changes}, "recipe"),
            "by hand": functools.partial(hand.start_measuring, hand_settings, "by-hand", _START_SECONDS, fresh=True),
        }
        assert context.training is not None and context.training.script is not None  # it was described
        plan = plan_turns(context.training.script.step_seconds)
        turns = turns_worth(plan, 2 * _START, plan.usual_deviation)
        of_round = RoundPlan(plan.order, turns, context.training.steps_per_epoch, _START_SECONDS)
        found = []
        for number in range(ROUNDS):
            found.append(take_turns(starts, number, of_round))
            told = ", ".join(f"{who} {math.exp(one.log_speedup):.2f}x" for who, one in found[-1].items())
            print(f"round {number + 1} of {ROUNDS}: {told or 'own settings failed'}", flush=True)
        return found


def _interval(logs: Sequence[float]) -> list[float]:
    """Return a ratio and both ends of Student's 95 % interval; no number where there are too few rounds."""
    mean, radius = mean_and_radius(logs)
    return [math.exp(mean), math.exp(mean - radius), math.exp(mean + radius)]


def main(arguments: Sequence[str]) -> int:
    """Measure what is wanted and was not measured with today's code; return the exit code."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BY_HAND))
    parser.add_argument("--minutes", **MINUTES)
    parser.add_argument("--seconds", type=float, help="budget of each tune; adds no row")
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - BY_HAND.keys()):
        parser.error(f"there is no script {', '.join(unknown)} here; there are {', '.join(BY_HAND)}")
    with ending_in_time(parsed.minutes) as seconds_left:
        for name in to_measure("frameworks", parsed.names or list(BY_HAND)):
            if seconds_left() < _WHOLE_SECONDS + LEAVING_SECONDS:
                print(f"{name}: left for another time: it may take {_WHOLE_SECONDS / 60:.0f} minutes in one go")
                break
            found = measure(name, parsed.seconds)
            if parsed.seconds is None:
                code = ("autoaccel", "benchmarks/studies/frameworks.py", f"tests/scripts/frameworks/{name}.py")
                add_row("frameworks", name, found, code=code)
            of_by_hand = "{:.2f} ({:.2f} to {:.2f})".format(*found["of_by_hand"])
            print(f"{name}: {found['said']} The recipe's speed over that of its own options: {of_by_hand}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
