"""How much the ratio scatters from one pair of processes to the next, and whether intervals that build on it hold.

    python -m benchmarks.studies.scatter

From the recorded tables: in each round every settings was measured by one fresh process beside the round's own baseline
process, so that over rounds the log ratio scatters by the luck of both, as it does from one fresh pair to the next.
`fit`: the scaled inverse chi-squared distribution under which the deviations of all settings are most likely, each
workload weighing alike; `comparison.PAIR_SCATTER` says why a larger one is used. `left out`: for each workload the fit
without it, and how often intervals with that knowledge miss the mean over all rounds at any look from the second pair
on; with the rounds as they came, and with what a worse machine adds on top: heavy-tailed luck of processes, bursts, and
a drift from pair to pair. Takes a minute. Results go to benchmarks/results/scatter.jsonl.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from autoaccel.statistics.comparison import PAIR_SCATTER, middle
from autoaccel.statistics.sequences import Scatter, deviation_of, t_radius
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.replay import Facts
from benchmarks.harness.rows import add_row
from benchmarks.harness.table import CODE as TABLES_CODE
from benchmarks.harness.table import TABLES, read_table

CODE = ("autoaccel/statistics", "benchmarks/studies/scatter.py", *TABLES_CODE)
ALPHA = 0.05
_DEVIATIONS = [0.02 * 1.05**step for step in range(60)]  # 0.02 to 0.35
_DEGREES = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 40.0]
_SEQUENCES = 2000  # replayed for each workload and kind of machine


class Group(NamedTuple):
    """Log ratios of the same settings, one of each pair of processes."""

    logs: tuple[float, ...]

    @property
    def deviation(self) -> float:
        """Their standard deviation."""
        return deviation_of(self.logs)


def groups_of(facts: Facts) -> list[Group]:
    """Return what the visits of each settings show, the luck of each round's baseline left in."""
    found = [tuple(log for _, log in logs) for logs in facts.logs.values()]
    return [Group(logs) for logs in found if len(logs) >= 3]


def log_likelihood(group: Group, known: Scatter) -> float:
    """Return how likely a group's deviation is under what is known: of an F distribution, constants left out."""
    count, ratio = len(group.logs) - 1, (group.deviation / known.deviation) ** 2
    degrees = known.degrees
    whole = math.lgamma((count + degrees) / 2) - math.lgamma(count / 2) - math.lgamma(degrees / 2)
    scale = 0.5 * count * math.log(count / degrees) - math.log(known.deviation**2)
    return (
        whole + scale + (count / 2 - 1) * math.log(ratio) - (count + degrees) / 2 * math.log1p(count * ratio / degrees)
    )


def fit(workloads: Mapping[str, Sequence[Group]]) -> Scatter:
    """Return the distribution of deviations under which those of all groups are most likely."""

    def fits(known: Scatter) -> float:
        return sum(statistics.fmean(log_likelihood(group, known) for group in groups) for groups in workloads.values())

    return max((Scatter(deviation, degrees) for deviation in _DEVIATIONS for degrees in _DEGREES), key=fits)


def as_recorded(logs: list[float], generator: random.Random) -> list[float]:
    """Return the pairs as they came."""
    return logs


def on_a_worse_machine(logs: list[float], generator: random.Random) -> list[float]:
    """Return the pairs with heavy-tailed luck, a burst in one of ten, and a drift on top, none of which favours a side.

    The luck has Student's distribution with three degrees and a scale of 0.03, a burst moves the ratio by up to a half
    either way, and the drift is a random walk of 0.01 for each pair.
    """
    found, drift = [], 0.0
    for log in logs:
        heavy = generator.gauss(0, 0.03) / math.sqrt(generator.gammavariate(1.5, 2.0) / 3.0)
        burst = generator.uniform(-0.5, 0.5) if generator.random() < 0.1 else 0.0
        drift += generator.gauss(0, 0.01)
        found.append(log + heavy + burst + drift)
    return found


MACHINES = {"as recorded": as_recorded, "worse": on_a_worse_machine}


def missed_share(groups: Sequence[Group], known: Scatter, machine: str, seed: int = 0) -> float:
    """Return how often the interval leaves out the mean of all of a settings' pairs at any look at some of them."""
    generator = random.Random(seed)
    missed = 0
    for _ in range(_SEQUENCES):
        group = generator.choice(groups)
        truth = statistics.fmean(group.logs)
        logs = MACHINES[machine](generator.sample(group.logs, len(group.logs)), generator)
        looks = (logs[:count] for count in range(2, len(logs) + 1))
        missed += any(abs(middle(look) - truth) > t_radius(look, ALPHA, known) for look in looks)
    return missed / _SEQUENCES


def main() -> None:
    """Fit, hold out, write the results."""
    make_parser(__doc__).parse_args()
    tables = {path.name.partition(".")[0]: Facts(read_table(path)) for path in sorted(TABLES.glob("*.jsonl.gz"))}
    workloads = {name: groups_of(facts) for name, facts in tables.items()}
    found = fit(workloads)
    seen = {name: statistics.median(group.deviation for group in groups) for name, groups in workloads.items()}
    print(f"all: {found.deviation:.3f}, {found.degrees:g} degrees; medians {seen}")
    add_row("scatter", "fit", {**found._asdict(), "used": PAIR_SCATTER._asdict(), "medians": seen}, code=CODE)
    for name, groups in workloads.items():
        others = fit({other: one for other, one in workloads.items() if other != name})
        shares: dict[str, Any] = {
            kind: {
                machine: missed_share(groups, Scatter(deviation, PAIR_SCATTER.degrees), machine) for machine in MACHINES
            }
            for kind, deviation in (("fit of the others", others.deviation), ("used", PAIR_SCATTER.deviation))
        }
        print(f"without {name}: {others.deviation:.3f}, {others.degrees:g} degrees; missed {shares}")
        row = {"settings": len(groups), "fit": others._asdict(), "missed": shares}
        add_row("scatter", f"left out: {name}", row, code=CODE)


if __name__ == "__main__":
    main()
