"""Do bounds bind? What each remedy won, on everything that was recorded, beside the most that advice says of it.

    python -m benchmarks.studies.tables.held

On the tables, the findings of today's rules about the recorded profile, for each remedy that was measured alone. Their
profiles were taken before rates were, so that this holds the rules for where nobody measured. Beside them the planted
problems with the bounds that were told when their repairs were measured; the allocators, measured on one example, with
the bounds that advice told of it on the same processor; and what remedies.py measured. A gain is within its bound if
its lower end is. Results go to benchmarks/results/held.jsonl; seconds.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from autoaccel.advise.bounds import bound_beside_others
from autoaccel.records.profile import Finding
from autoaccel.records.settings import Settings, Value, settings_key
from autoaccel.statistics.comparison import NOISE_THRESHOLD
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.replay import Facts
from benchmarks.harness.rows import add_row, latest, read_rows
from benchmarks.harness.table import TABLES, read_table
from benchmarks.studies.tables.simulate import made_from

MAX_RATIO = 1.5  # of the median bound to the gain of the best remedy of its kind
_DEVIATIONS = 2.0  # of the mean that a gain may lie above its bound by chance
_DEVIATIONS_OF_MANY = 3.0  # where the largest of dozens is looked at
_SEVERAL = 5  # visits; of two, one may have been disturbed from beginning to end

KINDS: dict[str, tuple[str, ...]] = {
    "type": ("precision.autocast",),
    "layout": ("layout.channels_last",),
    "compiler": ("compile.mode",),
    "update": ("optimizer.fused",),
    # Whoever gives the loader a worker on two cores takes a thread from the training, as the finding's advice says.
    "loading": ("loader.workers", "threads.intra_op"),
}
"""Kind of remedy -> its knobs, the first of which findings bound."""


@dataclass(frozen=True)
class Held:
    """A bound beside what was won."""

    remedy: str
    kind: str
    bound: float
    gain: float
    gain_low: float
    beside_others: float | None = None  # the most that it surely won in the company of other remedies

    @property
    def is_within(self) -> bool:
        """Whether the gain is within the bound, its error considered."""
        return self.gain_low <= self.bound


def bounds_of(findings: Sequence[Finding]) -> dict[str, float]:
    """Return knob -> the largest bound that a finding gives it."""
    bounds: dict[str, float] = {}
    for finding in findings:
        for name in finding.knobs:
            bounds[name] = max(bounds.get(name, 1.0), finding.bound_speedup)
    return bounds


def held_on_table(facts: Facts) -> list[Held]:
    """Return each remedy that a table measured alone."""
    baseline, bounds, error = facts.table.head.baseline_settings, bounds_of(facts.findings), deviation_of_visits(facts)
    found = []
    for kind, knobs in KINDS.items():
        for settings in facts.settings.values():
            changes = {name: value for name, value in settings.items() if value != baseline[name]}
            key = settings_key(settings)
            if knobs[0] not in changes or not changes.keys() <= set(knobs) or key not in facts.logs:
                continue
            log, spread = facts.log_speedup[key], error / math.sqrt(len(facts.logs[key]))
            found.append(
                Held(
                    remedy=", ".join(f"{name}={value}" for name, value in changes.items()),
                    kind=kind,
                    bound=bounds[knobs[0]],
                    gain=math.exp(log),
                    gain_low=math.exp(log - _DEVIATIONS * spread),
                    beside_others=beside_others(facts, changes, error),
                )
            )
    return found


def deviation_of_visits(facts: Facts) -> float:
    """Return the standard deviation of the logarithm of what one visit shows, over all settings of a table.

    Of two visits alone nobody could tell it.
    """
    left = [
        log - facts.round_level[number] - facts.log_speedup[key]
        for key, logs in facts.logs.items()
        for number, log in logs
        if len(logs) > 1
    ]
    several = sum(len(logs) > 1 for logs in facts.logs.values())
    return math.sqrt(math.fsum(one * one for one in left) / max(1, len(left) - several))


def beside_others(facts: Facts, changes: Mapping[str, Value], error: float) -> float | None:
    """Return the most that some changes surely won in addition to others, given the deviation of a visit.

    The best of dozens of pairs is lucky: of each the lower end counts, and only of what was visited several times.
    """
    baseline = facts.table.head.baseline_settings
    won = []
    for settings in facts.settings.values():
        if any(settings[name] != value for name, value in changes.items()):
            continue
        without: Settings = {**settings, **{name: baseline[name] for name in changes}}
        keys = settings_key(settings), settings_key(without)
        if without != baseline and all(len(facts.logs.get(key, ())) >= _SEVERAL for key in keys):
            spread = error * math.sqrt(math.fsum(1 / len(facts.logs[key]) for key in keys))
            gain = facts.log_speedup[keys[0]] - facts.log_speedup[keys[1]]
            won.append(math.exp(gain - _DEVIATIONS_OF_MANY * spread))
    return max(won, default=None)


def held_when_planted() -> list[Held]:
    """Return the repairs of planted problems, with the bounds that were told when they were measured."""
    rows = latest(read_rows("planted")).values()
    return [
        Held(row.name, row.found["code"], row.found["bound_speedup"], row.found["gain"], min(row.found["gains"]))
        for row in rows
        if "gain" in row.found and row.found["bound_speedup"]
    ]


def held_by_allocators() -> list[Held]:
    """Return the allocators on the example on which they were measured, with what advice told of page faults there."""
    told = latest(read_rows("advice"))["digits_cnn"].found["calls"]
    bounds = [dict(map(tuple, call["findings"])) for call in told]
    bound = statistics.median(max(call.get("page-faults", 1.0), call.get("memory", 1.0)) for call in bounds)
    changes = latest(read_rows("libraries"))["digits_cnn"].found["changes"]
    return [
        Held(change, "allocator", bound, comparison["speedup"], comparison["low"])
        for change, comparison in changes.items()
        if change.startswith("memory.allocator=") and " " not in change
    ]


def held_with_rates() -> dict[str, list[Held]]:
    """Return what `remedies.py` measured, each remedy beside the median of its bounds: with rates, on one processor."""
    found: dict[str, list[Held]] = {}
    for name, row in latest(read_rows("remedies")).items():
        for remedy in row.found["remedies"]:
            logs, bound = remedy["logs"], statistics.median(remedy["bounds"])
            if len(logs) < 2:
                continue  # nobody knows how far off a single reading is
            spread, mean = statistics.stdev(logs) / math.sqrt(len(logs)), statistics.fmean(logs)
            held = Held(remedy["change"], remedy["kind"], bound, math.exp(mean), math.exp(mean - _DEVIATIONS * spread))
            found.setdefault(f"{name}, with rates", []).append(held)
    return found


def ratios(found: Sequence[Held]) -> dict[str, float]:
    """Return kind -> its bound over the gain of its best remedy; where none won anything, over nothing won."""
    best: dict[str, float] = {}
    bounds: dict[str, float] = {}
    for one in found:
        best[one.kind] = max(best.get(one.kind, 1.0), one.gain)
        bounds[one.kind] = one.bound
    return {kind: bound / best[kind] for kind, bound in bounds.items()}


def stays_possible(one: Held) -> bool:
    """Whether what a remedy won beside others is no more than the search takes for possible there."""
    return one.beside_others is None or one.beside_others <= (1 + NOISE_THRESHOLD) * bound_beside_others(one.bound)


def everything() -> dict[str, list[Held]]:
    """Return all that was recorded, by where it was."""
    tables = sorted(TABLES.glob("*.jsonl.gz"))
    found = {path.name.partition(".")[0]: held_on_table(Facts(read_table(path))) for path in tables}
    others = {"digits_cnn, allocators": held_by_allocators(), "planted": held_when_planted()}
    return {**found, **others, **held_with_rates()}


def main() -> int:
    """Compare; write the results. Return 1 if a gain is above its bound, or bounds are far above gains."""
    make_parser(__doc__).parse_args()
    of_all: list[float] = []
    broken = 0
    for name, found in everything().items():
        of_kinds = ratios(found)
        of_all.extend(of_kinds.values())
        for one in found:
            broken += not (one.is_within and stays_possible(one))
            print(
                f"{name:24} {one.remedy:42} won {one.gain:5.2f}x (low {one.gain_low:5.2f}), at most {one.bound:6.2f}x"
                + ("" if one.is_within else "  ABOVE ITS BOUND")
            )
        made = made_from(name) if name in {path.name.partition(".")[0] for path in TABLES.glob("*.gz")} else None
        add_row(
            "held",
            name,
            {"remedies": [{**asdict(one), "within": one.is_within} for one in found], "bound_over_best": of_kinds},
            code=("autoaccel/advise", "benchmarks/studies/tables/held.py"),
            made=made,
        )
    middle = statistics.median(of_all)
    print(f"{broken} above; the median bound is {middle:.2f} times the best gain of its kind, {len(of_all)} kinds")
    return int(broken > 0 or middle > MAX_RATIO)


if __name__ == "__main__":
    sys.exit(main())
