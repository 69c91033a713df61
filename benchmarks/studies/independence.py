"""Are pairs of processes independent where the baseline stays alive from pair to pair?

    python -m benchmarks.studies.independence [WORKLOAD ...] [--set precision.autocast=bfloat16] [--blocks 8]
        [--pairs 4] [--minutes N]

In each block one process of the baseline is started and kept. In each of the block's pairs a fresh baseline and a
fresh candidate start beside it, and all three take turns in random order: so the candidate has a ratio over the fresh
baseline and one over the kept one, from the same minutes. What a kept baseline's own luck adds is in all pairs of its
block alike: their scatter does not show it, and no number of pairs averages it out. It shows from block to block, in
the means of what the two ratios differ by. Results go to benchmarks/results/independence.jsonl, a row for each
workload; ten minutes for steps of 1.6 s. Blocks are kept one by one: it may be stopped at any time, and resumes there.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from autoaccel.errors import AutoaccelError
from autoaccel.records.base import Record, decode, encode
from autoaccel.records.messages import Failure, Measure
from autoaccel.records.settings import Settings, describe_change
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.space.search_space import load_space
from autoaccel.statistics.comparison import turns_log
from autoaccel.statistics.disturbance import usual_seconds
from autoaccel.statistics.steps import step_seconds_of_turns
from autoaccel.statistics.turn_plan import TurnPlan, plan_turns, turns_worth
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.starter import WorkerStarter
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import MINUTES, at_least, ending_in_time
from benchmarks.harness.rows import ROOT, add_row, digest, is_fresh, provenance, runs_folder

WORKLOADS = ("examples/digits_cnn.py", "benchmarks/workloads/long_gpt.py")
CODE = ("autoaccel", "benchmarks/studies/independence.py")
TIMEOUT_SECONDS = 600.0
_CALM = 1.5  # times its usual time a turn takes at most that counts
PAIRS_OF_A_PROOF = 3


class Reading(NamedTuple):
    """One candidate process beside two of the baseline."""

    fresh: float  # log speed-up over the baseline that was started with it
    kept: float  # over the block's
    start_seconds: float  # until the fresh two were warm
    turns_seconds: float  # that one of the three took for all its turns, on average


def started(found: Measuring | Failure) -> Measuring:
    """Return a process that is warm; end the benchmark if it has failed."""
    if isinstance(found, Failure):
        sys.exit(f"a process failed: {found.message}\n{found.traceback}")
    return found


def read_pair(
    starter: WorkerStarter,
    kept: Measuring,
    plan: TurnPlan,
    both: Sequence[Settings],
    steps_per_epoch: int,
    generator: random.Random,
) -> Reading:
    """Return what a fresh pair beside a kept baseline shows."""
    kept.turns.clear()
    start = time.perf_counter()
    settings = dict(zip(("fresh", "other"), both, strict=True))
    fresh, other = map(started, starter.start_all_measuring(Measure(), settings, TIMEOUT_SECONDS))
    start_seconds = time.perf_counter() - start
    sides = [kept, fresh, other]
    number = turns_worth(plan, start_seconds, plan.usual_deviation, plan.step_seconds / other.warm_step_seconds)
    for _ in range(number):
        for side in generator.sample(sides, len(sides)):
            if isinstance(turn := side.take_turn(plan.order, TIMEOUT_SECONDS), Failure):
                sys.exit(f"a turn failed: {turn.message}")
    turns_seconds = (time.perf_counter() - start - start_seconds) / len(sides)
    factor = other.batch_factor / kept.batch_factor
    seconds = [step_seconds_of_turns(side.turns, steps_per_epoch, factor if side is other else 1.0) for side in sides]
    fresh.close()
    other.close()
    # Both designs lose the same turns, so that they differ in nothing but the baseline's process.
    calm = [[one <= _CALM * usual_seconds(found) for one in found] for found in seconds[:2]]
    calm_turns = [index for index in range(number) if all(counts[index] for counts in calm)] or range(number)
    over_kept, over_fresh = (
        turns_log([(baseline[index], seconds[2][index]) for index in calm_turns]) for baseline in seconds[:2]
    )
    return Reading(over_fresh, over_kept, start_seconds, turns_seconds)


def summed_up(blocks: Sequence[Sequence[Reading]]) -> dict[str, Any]:
    """Return what the blocks say, at least two of at least two readings each.

    Standard deviations of log speed-ups: of a pair with a fresh and with a kept baseline within a block, and of the
    luck that all pairs with one kept baseline share. Then what three pairs of a proof are wrong by, beside what their
    own scatter makes them claim; and what a pair costs.
    """
    count = statistics.fmean(len(block) for block in blocks)

    def within(values: Sequence[Sequence[float]]) -> float:
        return math.sqrt(statistics.fmean(statistics.variance(block) for block in values))

    fresh, kept = (within([[getattr(one, name) for one in block] for block in blocks]) for name in ("fresh", "kept"))
    differences = [[one.kept - one.fresh for one in block] for block in blocks]
    between = statistics.variance([statistics.fmean(block) for block in differences])
    luck = math.sqrt(max(0.0, between - within(differences) ** 2 / count))
    readings = [one for block in blocks for one in block]
    start = statistics.fmean(one.start_seconds for one in readings)
    turns = 2 * statistics.fmean(one.turns_seconds for one in readings)
    claimed = kept / math.sqrt(PAIRS_OF_A_PROOF)
    return {
        "blocks": [[[one.fresh, one.kept] for one in block] for block in blocks],
        "fresh_deviation": fresh,
        "kept_deviation": kept,
        "kept_luck": luck,
        "error_of_three": {"fresh": fresh / math.sqrt(PAIRS_OF_A_PROOF), "kept": math.hypot(luck, claimed)},
        "claimed_of_three": {"fresh": fresh / math.sqrt(PAIRS_OF_A_PROOF), "kept": claimed},
        "seconds_of_pair": {"fresh": start + turns, "kept": start / 2 + turns},
    }


class Block(Record, frozen=True):
    """Pairs beside one kept baseline."""

    change: str
    """What the candidate's settings change."""
    step_seconds: float
    """Of the kept baseline."""
    readings: tuple[Reading, ...]


def measure(target: str, wish: str, blocks: int, pairs: int) -> dict[str, Any]:
    """Return what came of one workload; blocks that were measured before are taken as they are."""
    code = digest("benchmarks/studies/independence.py") + digest(target)
    path = runs_folder("independence") / code / f"{Path(target).stem}-{wish}-{pairs}.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    found = [decode(line, Block) for line in lines]
    if len(found) < blocks:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:
            for block in measured(target, wish, range(len(found), blocks), pairs):
                file.write(encode(block) + b"\n")
                found.append(block)
    found = found[:blocks]
    return {
        "candidate": found[0].change,
        "step_seconds": statistics.median(block.step_seconds for block in found),
        **summed_up([block.readings for block in found]),
    }


def measured(target: str, wish: str, numbers: range, pairs: int) -> Iterator[Block]:
    """Yield blocks of pairs.

    Args:
        target: The workload's file.
        wish: The candidate, as `--set` takes it.
        numbers: Of the blocks.
        pairs: Of each block.
    """
    workload = find_workload(str(ROOT / target))
    with tempfile.TemporaryDirectory() as folder, WorkerStarter(Path(folder), workload) as starter:
        machine, facts = probe_and_describe(starter, workload, TIMEOUT_SECONDS)
        context = KnobContext(machine, facts)
        starter = starter.at(context)
        baseline = baseline_settings(context)
        candidate = baseline | load_space("everything", context, fixed=[wish]).fixed
        # How many steps each takes to settle, and what it has to compile, is found out before anything counts.
        for side in starter.start_all_measuring(Measure(), {"first": baseline, "other": candidate}, TIMEOUT_SECONDS):
            started(side).close()
        for number in numbers:
            generator = random.Random(f"{target} {number}")
            kept = started(starter.start_measuring(baseline, "kept", TIMEOUT_SECONDS))
            plan = plan_turns(kept.warm_step_seconds, facts.device)
            readings = []
            for _ in range(pairs):
                one = read_pair(starter, kept, plan, [baseline, candidate], facts.steps_per_epoch, generator)
                readings.append(one)
                print(f"{target} block {number + 1}: {one.fresh:+.3f} fresh, {one.kept:+.3f} kept", flush=True)
            kept.close()
            yield Block(describe_change(candidate, baseline), plan.step_seconds, tuple(readings))


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line, `workloads` as seen from the root of the repository."""
    parser = make_parser(__doc__)
    parser.add_argument("workloads", nargs="*", help=f"files; if none is given, {' and '.join(WORKLOADS)}")
    parser.add_argument("--set", default="precision.autocast=bfloat16", help="the candidate")
    parser.add_argument("--blocks", type=at_least(2), default=8)
    parser.add_argument("--pairs", type=at_least(2), default=4, help="of each block")
    parser.add_argument("--minutes", **MINUTES)
    parsed = parser.parse_args(arguments)
    parsed.workloads = parsed.workloads or WORKLOADS
    for target in parsed.workloads:
        if not (ROOT / target).is_file():
            parser.error(f"{target}: there is no such file, seen from the root of the repository")
    return parsed


def main(arguments: Sequence[str]) -> int:
    """Measure each workload that has no row of today's code, and add its row; return the exit code."""
    parsed = read_arguments(arguments)
    with ending_in_time(parsed.minutes):
        for target in parsed.workloads:
            name = Path(target).stem
            if is_fresh("independence", name):
                print(f"{name}: measured with today's code", flush=True)
                continue
            made = provenance((*CODE, target))
            try:
                found = measure(target, parsed.set, parsed.blocks, parsed.pairs)
            except AutoaccelError as error:
                print(f"{name}: {error}", file=sys.stderr, flush=True)
                return error.exit_code
            print(json.dumps({key: value for key, value in found.items() if key != "blocks"}, indent=2), flush=True)
            add_row("independence", name, found, made=made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
