"""How often settings that change nothing are called faster: the baseline against itself under other names.

    python -m benchmarks.studies.false_wins [--minutes N]    # both
    python -m benchmarks.studies.false_wins replayed [--comparisons 2000]
    python -m benchmarks.studies.false_wins live [--comparisons 25] [--minutes N] [NAME ...]

Replayed: pairs of processes out of the tables' visits, with the effect of their settings taken away and their noise
left in, and with disturbances put on top: bursts that slow some neighbouring turns two- to tenfold, the two sides not
alike; a luck of processes with heavy tails; and a ratio that drifts from pair to pair. Live: fresh pairs of processes
of each example, both under its own settings. Both go through the proof that decides on every recipe. Results go to
benchmarks/results/false_wins.jsonl, a row for all replayed ones and one for each example; what is there of today's code
is not measured again. Live comparisons are kept one by one: it may be stopped at any time, and resumes there.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from autoaccel.bench.bench import FreshPair
from autoaccel.bench.pairs import FreshPairs
from autoaccel.bench.turns import TurnTaker
from autoaccel.proof.proof import Prover
from autoaccel.records.base import Record, decode, encode
from autoaccel.records.messages import Turn
from autoaccel.records.progress import ignore
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import Request
from autoaccel.records.settings import Settings, settings_key
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import BuildFunction
from autoaccel.runs.clock import BudgetClock
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.runs.workloads import find_workload
from autoaccel.search.instruments import Reading
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.statistics.comparison import NOISE_THRESHOLD
from autoaccel.statistics.deciding import rule_for
from autoaccel.statistics.turn_plan import TURNS, plan_turns
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.starter import WorkerStarter
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import MINUTES, at_least, ending_in_time
from benchmarks.harness.replay import Facts, Side, SimulatedClock
from benchmarks.harness.rows import ROOT, add_row, digest, is_stale, latest, provenance, read_rows, runs_folder
from benchmarks.harness.table import CODE as TABLES_CODE
from benchmarks.harness.table import TABLES, Visit, read_table

CODE = {
    "live": ("autoaccel", "benchmarks/studies/false_wins.py"),
    "replayed": (
        "autoaccel/proof",
        "autoaccel/bench",
        "autoaccel/statistics",
        "benchmarks/studies/false_wins.py",
        *TABLES_CODE,
    ),
}
EXAMPLES = ("digits_cnn", "char_gpt", "tabular_mlp", "image_pipeline")
COMPARISONS = {"replayed": 2000, "live": 25}  # live: of each example
DRAWN_TURNS = 24
BURST_SHARE = 0.3  # of the pairs meet a burst
LUCK, DRIFT = 0.03, 0.01
"""Scale of a Student's t with three degrees, and standard deviation of the steps of a random walk, both of the log
ratio from pair to pair: what comes on top of the recorded scatter of 0.03 to 0.07."""

MAX_LIVE_PAIRS = 6


class NullPairs:
    """Pairs of processes without a difference, with the noise of real ones."""

    def __init__(self, facts: Facts, generator: random.Random) -> None:
        """Draw from these tables' visits."""
        self._facts = facts
        self._random = generator
        self._visits = [visit for visits in facts.visits.values() for visit in visits if visit.trusted]
        self._taker = facts.turn_taker()
        self._drift = 0.0

    def compare(self, settings: Settings, how: FreshPair) -> Reading:
        """Return a pair drawn by chance."""
        visit = self._random.choice(self._visits)
        baseline, other = self._turns_of(visit)
        clock = SimulatedClock(math.inf)
        reading = self._taker.take(
            Side(baseline, clock),  # type: ignore[arg-type]  # a side of a replay stands for a worker
            Side(other, clock),  # type: ignore[arg-type]  # a side of a replay stands for a worker
            lambda pairs: len(pairs) >= TURNS,
        )
        assert isinstance(reading, Reading)
        return reading

    def _turns_of(self, visit: Visit) -> tuple[list[Turn], list[Turn]]:
        assert isinstance(visit.outcome, Measurement)
        effect = math.exp(self._facts.log_speedup[settings_key(visit.settings)] + self._facts.round_level[visit.round])
        self._drift += self._random.gauss(0, DRIFT)
        effect *= math.exp(self._drift + LUCK * heavy_tailed(self._random))
        count = len(visit.baseline_turns)
        order = [*self._random.sample(range(count), count), *self._random.choices(range(count), k=DRAWN_TURNS)]
        baseline = [visit.baseline_turns[index] for index in order]
        other = [_times(visit.outcome.turns[index], effect) for index in order]
        if self._random.random() < BURST_SHARE:
            start = self._random.randrange(len(order))
            length = self._random.randint(1, len(order))
            factor = math.exp(self._random.uniform(math.log(2), math.log(10)))
            unlike = factor ** self._random.uniform(0.3, 1.5)
            for index in range(start, min(start + length, len(order))):
                baseline[index], other[index] = _times(baseline[index], factor), _times(other[index], unlike)
        return baseline, other


def heavy_tailed(generator: random.Random) -> float:
    """Return a draw from Student's t distribution with three degrees of freedom."""
    return generator.gauss(0, 1) / math.sqrt(generator.gammavariate(1.5, 2.0) / 3.0)


def _times(turn: Turn, factor: float) -> Turn:
    return msgspec.structs.replace(turn, step_seconds=tuple(factor * seconds for seconds in turn.step_seconds))


def replayed(comparisons: int) -> dict[str, Any]:
    """Return what came of this many replayed proofs."""
    tables = [Facts(read_table(path)) for path in sorted(TABLES.glob("*.jsonl.gz"))]
    generator = random.Random(0)
    results: dict[str, int] = {}
    pairs = single = 0
    for number in range(comparisons):
        facts = tables[number % len(tables)]
        source = NullPairs(facts, generator)
        prover = Prover(source.compare, facts.table.head.facts, SimulatedClock(math.inf), ignore)
        proof = prover.prove(facts.table.head.baseline_settings, rule_for(1, 1 + NOISE_THRESHOLD), None)
        results[proof.result] = results.get(proof.result, 0) + 1
        pairs += len(proof.pairs)
        first = source.compare({}, FreshPair(0)).pairs[0]
        single += first[0] / first[1] > 1 + NOISE_THRESHOLD
    return {
        "comparisons": comparisons,
        "tables": [facts.table.head.workload for facts in tables],
        "outcomes": results,
        "false_win_share": results.get("proven", 0) / comparisons,
        "mean_pairs": pairs / comparisons,
        "share_of_single_turns_above_threshold": single / comparisons,
    }


class Compared(Record, frozen=True):
    """What came of one live comparison."""

    result: str
    interval: tuple[float, float, float] | None
    """The speed-up with the ends of its interval; None if nothing could be said."""
    pairs: int
    seconds: float


def live(name: str, comparisons: int) -> dict[str, Any]:
    """Return what came of this many live proofs with an example; those that were made before are taken as they are."""
    path = runs_folder("false_wins") / digest("benchmarks/studies/false_wins.py") / f"{name}.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    found = [decode(line, Compared) for line in lines]
    if len(found) < comparisons:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:
            for one in compared(name, len(found), comparisons):
                file.write(encode(one) + b"\n")
                found.append(one)
    found = found[:comparisons]
    return {
        "comparisons": comparisons,
        "outcomes": {
            result: sum(one.result == result for one in found) for result in sorted({one.result for one in found})
        },
        "false_win_share": sum(one.result == "proven" for one in found) / comparisons,
        "intervals": [one.interval for one in found if one.interval],
        "mean_pairs": statistics.fmean(one.pairs for one in found),
        "seconds": sum(one.seconds for one in found),
    }


def compared(name: str, start: int, end: int) -> Iterator[Compared]:
    """Yield what comes of live proofs with an example, of the baseline against itself.

    Args:
        name: Of the example.
        start: Number of the first.
        end: Of the one after the last.
    """
    workload = find_workload(str(ROOT / "examples" / f"{name}.py"))
    with tempfile.TemporaryDirectory() as folder, WorkerStarter(Path(folder), workload) as starter:
        machine, facts = probe_and_describe(starter, workload, 120.0)
        starter = starter.at(KnobContext(machine, facts))
        baseline = baseline_settings(KnobContext(machine, facts))
        first = starter.start_measuring(baseline, "first", 120.0)
        step_seconds = first.warm_step_seconds  # type: ignore[union-attr]  # the baseline does not fail
        first.close()  # type: ignore[union-attr]  # the baseline does not fail
        for number in range(start, end):
            request = Request(BuildFunction("", "", ""), math.inf, Constraint(0.0, True))
            run = TuningRun(request, RunFolder(Path(folder)), starter, BudgetClock(3600.0), ignore)
            taker = TurnTaker(plan_turns(step_seconds), facts.steps_per_epoch, [step_seconds])
            source = FreshPairs(run, baseline, taker)
            prover = Prover(source.compare, facts, run.clock, ignore)
            proof = prover.prove(baseline, rule_for(1, 1 + NOISE_THRESHOLD, MAX_LIVE_PAIRS), None)
            said = proof.comparison
            interval = (said.speedup, said.low, said.high) if said else None
            told = "{:.3f} ({:.3f} to {:.3f})".format(*interval) if interval else "no interval"
            print(f"{name} {number + 1}/{end} {proof.result}: {told}", flush=True)
            yield Compared(proof.result, interval, len(proof.pairs), run.clock.spent)


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line, with `comparisons` and `names` as they are if they are not given."""
    parser = make_parser(__doc__)
    parser.add_argument("kind", nargs="?", choices=list(COMPARISONS), help="default: one after the other")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of live comparisons: {', '.join(EXAMPLES)}")
    parser.add_argument("--comparisons", type=at_least(1), help="2,000 replayed ones, 25 live ones of each example")
    parser.add_argument("--minutes", **MINUTES)
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - set(EXAMPLES)):
        parser.error(f"there is no example {', '.join(unknown)} here; there are {', '.join(EXAMPLES)}")
    if parsed.kind == "replayed" and (parsed.names or parsed.minutes):
        parser.error("replayed comparisons are of all tables, and take minutes: type no name and no --minutes")
    if parsed.kind is None and parsed.comparisons:
        parser.error("say which comparisons shall be so many: replayed or live")
    parsed.names = parsed.names or EXAMPLES
    return parsed


def main(arguments: Sequence[str]) -> None:
    """Make the comparisons that are not there yet; write the results."""
    parsed = read_arguments(arguments)
    kinds = [parsed.kind] if parsed.kind else ["replayed", "live"]
    rows = {"replayed": ""} if "replayed" in kinds else {}
    rows |= {f"live: {name}": name for name in parsed.names} if "live" in kinds else {}
    with ending_in_time(parsed.minutes):
        for row, name in rows.items():
            kind = "live" if name else "replayed"
            wanted = parsed.comparisons or COMPARISONS[kind]
            before = latest(read_rows("false_wins")).get(row)
            if before and not is_stale(before) and before.found["comparisons"] >= wanted:
                print(f"{row}: measured with today's code", flush=True)
                continue
            made = provenance(CODE[kind])
            found = live(name, wanted) if name else replayed(wanted)
            print(json.dumps({key: value for key, value in found.items() if key != "intervals"}, indent=2), flush=True)
            add_row("false_wins", row, found, made=made)


if __name__ == "__main__":
    main(sys.argv[1:])
