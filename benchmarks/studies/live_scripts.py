"""Scripts as they are, tuned while they train: do they end as in plain Python, with the same losses, and sooner?

    python -m benchmarks.studies.live_scripts [NAME ...] [--minutes N]

Each script is run to its end three times, in a folder of its own: in plain Python, through `autoaccel run` without a
recipe or anything remembered, and in plain Python once more. Each takes a minute or two. A row of
benchmarks/results/live_scripts.jsonl says what each run took, what the tuned one says of itself, and how the losses, or
whatever the script prints of its training, compare: how many of the first are the same to the last digit, by how much
the first other one differs, and where all three end. Nothing else should run meanwhile.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import MINUTES, ending_in_time
from benchmarks.harness.rows import add_row, to_measure

_SECONDS = 600.0  # of a run, which is stopped then
_LAST = 5  # numbers, whose mean says where a run ends
_RANKS = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
"""Before a script that a launcher starts twice."""


class Printing(NamedTuple):
    """A script, and what it prints.

    Attributes:
        file: Below tests/scripts.
        arguments: With which it trains for a minute or two.
        number: Matches each loss, or whatever it prints of its training.
        launcher: What starts it, after the interpreter's name; nothing: it is started itself.
    """

    file: str
    arguments: tuple[str, ...]
    number: str
    launcher: tuple[str, ...] = ()

    @property
    def code(self) -> tuple[str, ...]:
        """Files and folders that decide on it."""
        return ("autoaccel", "benchmarks/studies/live_scripts.py", f"tests/scripts/{self.file}")


CASES: Mapping[str, Printing] = {
    "Lightning": Printing("frameworks/lit_digits.py", ("--epochs", "14"), r"train_loss=([\d.e+-]+)"),
    "transformers' Trainer": Printing("frameworks/bert_trainer.py", ("--epochs", "5"), r"'loss': '?([\d.e+-]+)"),
    "accelerate": Printing("frameworks/accelerated.py", ("--num_epochs", "8"), r"accuracy ([\d.]+)"),
    "timm": Printing("frameworks/timm_train.py", ("--epochs", "6"), r"Loss: ([\d.]+)"),
    "GPT": Printing(
        "gpt/train.py",
        ("--n_embd=96", "--block_size=48", "--batch_size=8", "--max_iters=900", "--eval_interval=100"),
        r"iter \d+: loss ([\d.e+-]+)",
    ),
    "two processes": Printing("ddp.py", ("--epochs", "500"), r"loss ([\d.]+)", _RANKS),
    "GAN": Printing("gan.py", ("--niter", "300"), r"Loss_D: ([\d.e+-]+)"),
}


class Ended(NamedTuple):
    """What came of a run."""

    code: int
    seconds: float
    numbers: list[float]
    said: list[str]  # by autoaccel, on stderr


def measure(case: Printing) -> dict[str, Any]:
    """Return what came of a script."""
    before, live, after = (ended(case, is_live) for is_live in (False, True, False))
    plain = statistics.fmean((before.seconds, after.seconds))
    same = _same(before.numbers, live.numbers)
    return {
        "exit_codes": [before.code, live.code, after.code],
        "plain_seconds": [before.seconds, after.seconds],
        "seconds": live.seconds,
        "times_as_fast": plain / live.seconds,
        "said": live.said,
        "numbers": [len(run.numbers) for run in (before, live, after)],
        "same_in_plain": _same(before.numbers, after.numbers),
        "same": same,
        "first_difference": _difference(before.numbers[same:], live.numbers[same:]),
        "ends_at": [_end(run.numbers) for run in (before, live, after)],
    }


def ended(case: Printing, is_live: bool) -> Ended:
    """Return what came of a run.

    Args:
        case: The script.
        is_live: Whether it is tuned while it trains.
    """
    from tests.runtime.script.test_hard_cases import in_folder

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "own"
        folder.mkdir()
        script = in_folder(case.file, folder, case.arguments)
        ours = ("-m", "autoaccel", "run", "--no-history", "--script") if is_live else ()
        own = ("--", *case.arguments) if is_live else case.arguments
        command = [sys.executable, *case.launcher, *ours, script.program, *own]
        began = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=script.folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        seconds = time.perf_counter() - began
    numbers = [float(found) for found in re.findall(case.number, done.stdout)]
    return Ended(done.returncode, seconds, numbers, [line for line in done.stderr.splitlines() if "autoaccel:" in line])


def _same(one: Sequence[float], other: Sequence[float]) -> int:
    """Return how many numbers are the same, from the first on."""
    alike = [mine == theirs for mine, theirs in zip(one, other, strict=False)]
    return alike.index(False) if False in alike else len(alike)


def _difference(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return by what share of itself the first number differs; None if there is none."""
    return abs(other[0] - one[0]) / max(abs(one[0]), sys.float_info.min) if one and other else None


def _end(numbers: Sequence[float]) -> float | None:
    return statistics.fmean(numbers[-_LAST:]) if numbers else None


def main(arguments: Sequence[str]) -> int:
    """Measure what is wanted and was not measured with today's code; return 1 if a script ended otherwise."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--minutes", **MINUTES)
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - CASES.keys()):
        parser.error(f"there is no script {', '.join(unknown)} here; there are {', '.join(CASES)}")
    is_right = True
    with ending_in_time(parsed.minutes) as seconds_left:
        for name in to_measure("live_scripts", parsed.names or list(CASES)):
            if seconds_left() < _SECONDS:
                print(f"{name}: left for another time", flush=True)
                continue
            found = measure(CASES[name])
            add_row("live_scripts", name, found, code=CASES[name].code)
            is_right = is_right and len(set(found["exit_codes"])) == 1
            print(f"{name}: {found['times_as_fast']:.2f}x as fast as plain Python; {found}", flush=True)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
