"""Scripts, unchanged: what their recipe is worth beside what can be reached otherwise.

    python -m benchmarks.studies.scripts [NAME ...] [--minutes N]

Each script is tuned in a folder of its own, as a user types it. Then three of its runs are measured side by side, in
rounds of fresh processes that take turns: as it is, with its recipe, and otherwise:

- scripts of well-known trainers with the options that these offer for speed, such as `--precision bf16-mixed`;
- the digits with the recipe that was found for the same training as a file with build().

Rows go to benchmarks/results/scripts.jsonl. Nothing else should run meanwhile.
"""

from __future__ import annotations

import contextlib
import functools
import math
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoaccel.records.settings import Settings
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.statistics.turn_plan import plan_turns, turns_worth
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.starter import WorkerStarter
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import LEAVING_SECONDS, MINUTES, ending_in_time
from benchmarks.harness.rows import ROOT, add_row, to_measure
from benchmarks.harness.side_by_side import RoundPlan, Start, Taken, mean_and_radius, take_turns
from benchmarks.studies.unseen.tunes import tune


@dataclass(frozen=True)
class Case:
    """A script, and what its recipe is compared with."""

    path: str
    by_hand: tuple[str, ...] = ()
    """The arguments by which its own framework makes it faster here."""
    build: str = ""
    """The same training as a file with build()."""

    @property
    def code(self) -> tuple[str, ...]:
        """Files and folders that decide on it."""
        return ("autoaccel", "benchmarks/studies/scripts.py", self.path, *([self.build] if self.build else []))


CASES = {
    "Lightning": Case("tests/scripts/frameworks/lit_digits.py", ("--precision", "bf16-mixed")),
    "transformers' Trainer": Case("tests/scripts/frameworks/bert_trainer.py", ("--bf16",)),
    "accelerate": Case("tests/scripts/frameworks/accelerated.py", ("--mixed_precision", "bf16")),
    "timm": Case("tests/scripts/frameworks/timm_train.py", ("--amp", "--channels-last")),
    "digits": Case("tests/scripts/digits.py", build="examples/digits_cnn.py"),
}

ROUNDS = 5
_START_SECONDS = 300.0  # until a process has warmed up
_START = 8.0  # seconds that importing such a framework takes, about
_WHOLE_SECONDS = 1320.0  # two tunes and the rounds


def measure(case: Case, seconds: float | None) -> dict[str, Any]:
    """Return what came of a script: its recipe, and what that is worth beside what can be reached otherwise.

    Args:
        case: The script.
        seconds: Budget of each tune; None for the default.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "own"
        folder.mkdir()
        path = folder / "train.py"
        shutil.copy(ROOT / case.path, path)
        found = tune(path, folder / "autoaccel-runs" / "train", seconds, inside=folder)
        other = tune(ROOT / case.build, Path(scratch) / "build", seconds) if case.build else None
        with contextlib.chdir(folder), _starts(Path(scratch), case, found, other) as (starts, plan):
            rounds = [_round(starts, number, plan) for number in range(ROUNDS)]
    logs = {who: [taken[who].log_speedup for taken in rounds if who in taken] for who in ("recipe", "otherwise")}
    return {
        **found,
        "by_hand": list(case.by_hand),
        "build": other,
        "speedups": {who: _interval(each) for who, each in logs.items()},
        "of_otherwise": _interval([a - b for a, b in zip(logs["recipe"], logs["otherwise"], strict=False)]),
        "rounds": [{who: one._asdict() for who, one in taken.items()} for taken in rounds],
    }


@contextlib.contextmanager
def _starts(
    scratch: Path, case: Case, found: Mapping[str, Any], other: Mapping[str, Any] | None
) -> Iterator[tuple[dict[str, Start], RoundPlan]]:
    """Give what starts the script in the working folder as it is, with its recipe and otherwise, and how to measure.

    Args:
        scratch: Where logs may go.
        case: The script.
        found: What came of its tune.
        other: What came of that of build().
    """
    with contextlib.ExitStack() as stack:

        def starter_of(arguments: Sequence[str]) -> tuple[WorkerStarter, KnobContext]:
            workload = find_workload("train.py", arguments)
            logs = scratch / f"logs{'-'.join(arguments)}"
            logs.mkdir()
            starter = stack.enter_context(WorkerStarter(logs, workload))
            context = KnobContext(*probe_and_describe(starter, workload, _START_SECONDS))
            return starter.at(context), context

        def start(starter: WorkerStarter, settings: Settings, name: str) -> Start:
            return functools.partial(starter.start_measuring, settings, name, _START_SECONDS, fresh=True)

        own, context = starter_of(())
        settings = baseline_settings(context)
        starts = {
            "own": start(own, settings, "own"),
            "recipe": start(own, {**settings, **found["choice"]["settings"]}, "recipe"),
        }
        if other is not None:
            starts["otherwise"] = start(own, {**settings, **other["choice"]["settings"]}, "otherwise")
        else:
            by_hand, with_options = starter_of(case.by_hand)
            starts["otherwise"] = start(by_hand, baseline_settings(with_options), "otherwise")
        assert context.training is not None and context.training.script is not None  # it was described
        plan = plan_turns(context.training.script.step_seconds)
        turns = turns_worth(plan, 2 * _START, plan.usual_deviation)
        yield starts, RoundPlan(plan.order, turns, context.training.steps_per_epoch, _START_SECONDS)


def _round(starts: Mapping[str, Start], number: int, plan: RoundPlan) -> dict[str, Taken]:
    taken = take_turns(starts, number, plan)
    told = ", ".join(f"{who} {math.exp(one.log_speedup):.2f}x" for who, one in taken.items())
    print(f"round {number + 1} of {ROUNDS}: {told or 'own settings failed'}", flush=True)
    return taken


def _interval(logs: Sequence[float]) -> list[float]:
    """Return a ratio and both ends of Student's 95 % interval; no number where there are too few rounds."""
    mean, radius = mean_and_radius(logs)
    return [math.exp(mean), math.exp(mean - radius), math.exp(mean + radius)]


def main(arguments: Sequence[str]) -> int:
    """Measure what is wanted and was not measured with today's code; return the exit code."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--minutes", **MINUTES)
    parser.add_argument("--seconds", type=float, help="budget of each tune; adds no row")
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - CASES.keys()):
        parser.error(f"there is no script {', '.join(unknown)} here; there are {', '.join(CASES)}")
    wanted = parsed.names or list(CASES)
    with ending_in_time(parsed.minutes) as seconds_left:
        for name in wanted if parsed.seconds else to_measure("scripts", wanted):
            if seconds_left() < _WHOLE_SECONDS + LEAVING_SECONDS:
                print(f"{name}: left for another time: it may take {_WHOLE_SECONDS / 60:.0f} minutes in one go")
                break
            found = measure(CASES[name], parsed.seconds)
            if parsed.seconds is None:
                add_row("scripts", name, found, code=CASES[name].code)
            ratio = "{:.2f} ({:.2f} to {:.2f})".format(*found["of_otherwise"])
            print(f"{name}: {found['said']} Its speed over what is reached otherwise: {ratio}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
