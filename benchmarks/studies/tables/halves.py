"""Half of a table's visits says what is true, the other half is replayed: no search is judged by what it saw."""

from __future__ import annotations

import functools
import random
import statistics
from collections.abc import Callable, Sequence

from autoaccel.records.settings import Settings
from benchmarks.harness.replay import Facts
from benchmarks.harness.table import Table
from benchmarks.studies.tables.proofs import seconds_of_single_pass

CONFIDENCE = 0.95
_RESAMPLES = 2000
_SPLITS = 10


def halves(facts: Facts, table: Table, number: int) -> tuple[Facts, Facts]:
    """Return two halves of the rounds: whole rounds, because each has the luck of one baseline process.

    Args:
        facts: Of the whole table.
        table: As it was read, with the rounds as they were measured. The first two hold every setting, and part.
        number: Of the split: the later rounds are drawn anew for each.
    """
    rounds = sorted({visit.round for visit in table.visits})
    later = random.Random(number).sample(rounds[2:], len(rounds) - 2)
    first = {rounds[number % 2], *later[: len(later) // 2]}
    one, other = (
        Facts(Table(table.head, [visit for visit in table.visits if (visit.round in first) == kept]), facts)
        for kept in (True, False)
    )
    return one, other


@functools.cache
def best_key(facts: Facts, planned_steps: int) -> str:
    """Return the key of the settings with the shortest planned run, by all visits."""
    return min(facts.visits, key=lambda key: facts.total_seconds(facts.settings[key], planned_steps))


def regret(truth: Facts, settings: Settings, planned_steps: int) -> float:
    """Return by how much the run is longer than that of the best settings, as these visits tell it."""
    best = truth.total_seconds(truth.settings[best_key(truth, planned_steps)], planned_steps)
    return truth.total_seconds(settings, planned_steps) / best - 1


class Splits:
    """A table in halves, again and again in other ones."""

    def __init__(self, table: Table) -> None:
        """Split it."""
        self.whole = Facts(table)
        self.single_pass_seconds = seconds_of_single_pass(self.whole)
        self._halves = [halves(self.whole, table, number) for number in range(_SPLITS)]

    def half(self, number: int) -> tuple[Facts, Facts]:
        """Return what is true and what is replayed: each split comes both ways round before it comes again."""
        one, other = self._halves[number // 2 % _SPLITS]
        return (one, other) if number % 2 == 0 else (other, one)

    def resolution(self, planned_steps: int) -> float:
        """Return the regret that a half's own best has by the other half, on average.

        Nobody can know more of a half than all its visits say. A search whose regret is not above this has found all
        that the table can tell apart.
        """
        both = [self.half(number) for number in range(2 * _SPLITS)]
        return statistics.fmean(
            regret(truth, seen.settings[best_key(seen, planned_steps)], planned_steps) for truth, seen in both
        )


def interval(
    values: Sequence[float], middle: Callable[[Sequence[float]], float] = statistics.median
) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a middle: percentiles of that of resampled values (Efron, 1979)."""
    generator = random.Random(0)
    count = len(values)
    found = sorted(middle(generator.choices(values, k=count)) for _ in range(_RESAMPLES))
    tail = round((1 - CONFIDENCE) / 2 * _RESAMPLES)
    return found[tail], found[-1 - tail]
