"""What `autoaccel tune` hands back in less than its default ten minutes, several times where a try alone says little.

    python -m benchmarks.studies.budgets [NAME ...] [--minutes N]

Each try is a row of benchmarks/results/budgets.jsonl. Tries that were made with today's code are left out. Nothing else
should run meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from autoaccel.units import format_duration
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import LEAVING_SECONDS, MINUTES, ending_in_time
from benchmarks.harness.rows import ROOT, add_row, runs_folder, to_measure
from benchmarks.studies.unseen.tunes import tune


@dataclass(frozen=True)
class Case:
    """One training, and the budget that its user gives."""

    path: str
    budget_seconds: float
    tries: int

    @property
    def code(self) -> tuple[str, ...]:
        """Files and folders that decide on it."""
        return ("autoaccel", "benchmarks/studies/unseen/tunes.py", self.path)


CASES = {
    "gpt2_sources 8m": Case("benchmarks/studies/unseen/first/gpt2_sources.py", 480, 1),
    "gpt2_sources 3m": Case("benchmarks/studies/unseen/first/gpt2_sources.py", 180, 5),
    "small_resnet 4m": Case("benchmarks/workloads/small_resnet.py", 240, 3),
    "digits_cnn 60s": Case("examples/digits_cnn.py", 60, 10),
}
"""Steps of 2 s and a run of an hour; batch normalisation and a metric that scatters from seed to seed; a minute."""


def tries_of(name: str) -> list[str]:
    """Return the names of a case's rows."""
    return [f"{name}: {number}" for number in range(1, CASES[name].tries + 1)]


def main(arguments: Sequence[str]) -> int:
    """Make all tries that are wanted and not made; return the exit code."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--minutes", **MINUTES)
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - CASES.keys()):
        parser.error(f"there is no case {', '.join(unknown)} here; there are {', '.join(CASES)}")
    with ending_in_time(parsed.minutes) as seconds_left:
        for name in parsed.names or CASES:
            case = CASES[name]
            for one in to_measure("budgets", tries_of(name)):
                if seconds_left() < case.budget_seconds + LEAVING_SECONDS:
                    print(f"{one}: left for another time: it takes {format_duration(case.budget_seconds)} in one go")
                    break
                folder = runs_folder("budgets") / one.replace(": ", "-").replace(" ", "-")
                found = {"budget_seconds": case.budget_seconds, **tune(ROOT / case.path, folder, case.budget_seconds)}
                add_row("budgets", one, found, code=case.code)
                print(f"{one}: {found['said']}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
