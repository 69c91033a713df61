"""Measure a table: every setting of a space, in rounds of random order, each visit in turns with the baseline.

    python -m benchmarks.studies.tables.measure NAME [--rounds 2] [--more 5] [--closest 8]

After `--rounds` rounds over all settings come `--more` over the better third, by their steps and by the planned run,
because there the differences that matter are small (randomised multiple interleaved trials: Abedi and Brecht, ICPE
2017), and `--closest` over those that are within some percent of the best by then. Each round has a baseline process of
its own. It may be stopped at any time and resumes where it was, as long as the code is the same; each visit is kept as
it ends, in autoaccel-runs/tables, and in the end everything in benchmarks/results/tables/NAME.jsonl.gz. A table that
was there stays in benchmarks/results/tables/earlier.
"""

from __future__ import annotations

import collections
import hashlib
import itertools
import math
import random
import statistics
import sys
import time
from pathlib import Path

import msgspec

from autoaccel.advise.findings import advise
from autoaccel.advise.observations import Observations
from autoaccel.bench.turns import TurnTaker
from autoaccel.records.base import encode
from autoaccel.records.messages import Failure, TakeProfile, Turn
from autoaccel.records.settings import Settings, describe_change, settings_key
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement
from autoaccel.runs.workloads import find_workload
from autoaccel.search.instruments import Reading
from autoaccel.space.knobs import KnobContext, baseline_settings, compiled_part, is_on
from autoaccel.space.search_space import load_space
from autoaccel.statistics.steps import settled_step_seconds, step_seconds_of_turns
from autoaccel.statistics.turn_plan import plan_turns
from autoaccel.workers.describing import describe_workload, probe_machine
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.profiling import ask_profile
from autoaccel.workers.starter import WorkerStarter
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.replay import Facts
from benchmarks.harness.rows import ROOT, add_row, runs_folder, to_measure
from benchmarks.harness.table import DIGITS, TABLES, Table, TableHead, Visit, read_table, write_table

CODE = ("autoaccel/workers", "autoaccel/runtime", "benchmarks/studies/tables/measure.py")
WORKLOADS = {
    "digits_cnn": ("examples/digits_cnn.py", "fewer-workers.toml"),
    "small_resnet": ("benchmarks/workloads/small_resnet.py", "fewer-workers.toml"),
    "wide_mlp": ("benchmarks/workloads/wide_mlp.py", "all.toml"),
    "image_pipeline": ("examples/image_pipeline.py", "fewer-workers.toml"),
    "char_gpt": ("examples/char_gpt.py", "all.toml"),
    "tabular_mlp": ("examples/tabular_mlp.py", "all.toml"),
}
"""Name -> file, search space."""

TURNS = 6  # of each side in a visit
PROFILE_SECONDS = 2.0
TIMEOUT_SECONDS = 300.0
MAX_TRIES = 3
BETTER_SHARE = 1 / 3
CLOSE = 0.03


def rounded(turn: Turn) -> Turn:
    """Return the turn with times to the microsecond."""
    return msgspec.structs.replace(turn, step_seconds=tuple(round(value, DIGITS) for value in turn.step_seconds))


def rounded_measurement(found: Measurement) -> Measurement:
    """Return the measurement with times to the microsecond."""
    return msgspec.structs.replace(
        found,
        warmup_step_seconds=tuple(round(value, DIGITS) for value in found.warmup_step_seconds),
        turns=tuple(map(rounded, found.turns)),
    )


def all_settings(space: SearchSpace) -> list[Settings]:
    """Return every setting of a space."""
    combined = (dict(zip(space.open, values, strict=True)) for values in itertools.product(*space.open.values()))
    return [settings for values in combined if space.allows(settings := {**space.fixed, **values})]


def start_baseline(starter: WorkerStarter, unchanged: Settings, number: int) -> Measuring:
    """Return the baseline's process, warmed up."""
    measuring = starter.start_measuring(unchanged, f"baseline-{number}", TIMEOUT_SECONDS)
    if isinstance(measuring, Failure):
        sys.exit(f"the baseline failed: {measuring.message}\n{measuring.traceback}")
    return measuring


def make_head(starter: WorkerStarter, name: str) -> TableHead:
    """Find out all that a search knows before its first trial."""
    assert starter.workload is not None
    start = time.perf_counter()
    machine = probe_machine(starter)
    facts = describe_workload(starter, starter.workload, TIMEOUT_SECONDS)
    prepare_seconds = time.perf_counter() - start
    context = KnobContext(machine, facts)
    starter = starter.at(context)
    unchanged = baseline_settings(context)
    space = load_space(str(ROOT / "benchmarks" / "spaces" / WORKLOADS[name][1]), context)
    baseline = start_baseline(starter, unchanged, 0)
    order = plan_turns(baseline.warm_step_seconds).order
    for _ in range(TURNS):
        baseline.take_turn(order, TIMEOUT_SECONDS)
    baseline.close()
    start = time.perf_counter()
    profiled = ask_profile(starter, TakeProfile(PROFILE_SECONDS), unchanged, TIMEOUT_SECONDS)
    if isinstance(profiled, Failure):
        sys.exit(f"the profile failed: {profiled.message}")
    return TableHead(
        schema="autoaccel/table/1",
        workload=name,
        machine=machine,
        facts=facts,
        baseline_settings=unchanged,
        space=msgspec.structs.replace(space, name=WORKLOADS[name][1]),
        profile=profiled.profile,
        findings=tuple(advise(Observations(profiled.profile, machine))),
        baseline=rounded_measurement(baseline.measurement),
        prepare_seconds=prepare_seconds,
        profile_seconds=time.perf_counter() - start,
        turn_seconds=order.seconds,
    )


def turn_taker(head: TableHead) -> TurnTaker:
    """Return what takes turns with a table's baseline, that knows those of its head."""
    turns, steps_per_epoch = head.baseline.turns, head.facts.steps_per_epoch
    plan = plan_turns(settled_step_seconds(turns, steps_per_epoch))
    return TurnTaker(plan, steps_per_epoch, step_seconds_of_turns(turns, steps_per_epoch))


def visit(
    starter: WorkerStarter,
    baseline: Measuring,
    taker: TurnTaker,
    number: int,
    settings: Settings,
    cold: bool,
) -> Visit:
    """Measure some settings once."""
    start = time.perf_counter()
    baseline.turns.clear()
    trusted = True
    candidate = starter.start_measuring(settings, "visit", TIMEOUT_SECONDS)
    outcome: Measurement | Failure
    if isinstance(candidate, Failure):
        outcome = candidate
    else:
        reading = taker.take(baseline, candidate, lambda pairs: len(pairs) >= TURNS)
        candidate.close()
        if isinstance(reading, Reading):
            outcome, trusted = rounded_measurement(reading.measurement), reading.trusted
        else:
            outcome = reading if isinstance(reading, Failure) else reading.failure
    return Visit(
        round=number,
        settings=settings,
        outcome=outcome,
        baseline_turns=tuple(map(rounded, baseline.turns)),
        spent_seconds=round(time.perf_counter() - start, 3),
        cold=cold,
        trusted=trusted,
    )


def middle_ratio(found: Visit) -> float:
    """Return the median over turns of the baseline's mean step time over the candidate's."""
    assert isinstance(found.outcome, Measurement)
    return statistics.median(
        statistics.fmean(unchanged.step_seconds) / statistics.fmean(other.step_seconds)
        for unchanged, other in zip(found.baseline_turns, found.outcome.turns, strict=True)
    )


def better_third(table: Table) -> list[Settings]:
    """Return the third of the settings whose steps are fastest, and the third whose planned run is shortest."""
    facts = Facts(table)
    planned_steps = table.head.facts.planned_steps
    by_steps = sorted(facts.visits, key=lambda key: -facts.log_speedup[key])
    by_run = sorted(facts.visits, key=lambda key: facts.total_seconds(facts.settings[key], planned_steps))
    count = math.ceil(BETTER_SHARE * len(facts.visits))
    return [facts.settings[key] for key in dict.fromkeys([*by_steps[:count], *by_run[:count]])]


def contenders(table: Table) -> list[Settings]:
    """Return the settings whose planned run is within some percent of the shortest."""
    facts = Facts(table)
    planned_steps = table.head.facts.planned_steps
    totals = {key: facts.total_seconds(facts.settings[key], planned_steps) for key in facts.visits}
    least = min(totals.values())
    return [facts.settings[key] for key, total in totals.items() if total <= (1 + CLOSE) * least]


def measure(name: str, rounds: int, more: int, closest: int) -> None:
    """Measure one table, or resume it."""
    runs = runs_folder("tables")
    folder = runs / name
    folder.mkdir(parents=True, exist_ok=True)
    path = runs / f"{name}.jsonl"
    with WorkerStarter(folder, find_workload(str(ROOT / WORKLOADS[name][0]))) as starter:
        fresh_head = make_head(starter, name)  # also after an interruption: it warms the starter up
        starter = starter.at(KnobContext(fresh_head.machine, fresh_head.facts))
        if not path.exists():
            path.write_bytes(encode(fresh_head) + b"\n")
        table = read_table(path)
        head, visits = table.head, list(table.visits)
        everything = all_settings(head.space)
        # What was compiled before an interruption is compiled anew if its cache is gone.
        cached = (folder / "compiled").is_dir()
        compiled = {settings_key(compiled_part(found.settings)) for found in visits} if cached else set()
        for number in range(1, rounds + more + closest + 1):
            wanted = everything
            if number > rounds + more:
                wanted = contenders(Table(head, [found for found in visits if found.round <= rounds + more]))
            elif number > rounds:
                wanted = better_third(Table(head, [found for found in visits if found.round <= rounds]))
            done = {settings_key(found.settings) for found in visits if found.round == number and found.trusted}
            order = [settings for settings in wanted if settings_key(settings) not in done]
            random.Random(f"{name} {number}").shuffle(order)
            if not order:
                continue
            baseline = start_baseline(starter, head.baseline_settings, number)
            taker = turn_taker(head)
            tries: collections.Counter[str] = collections.Counter()
            for index, settings in enumerate(order, start=1):
                part = settings_key(compiled_part(settings))
                cold = is_on("compile.mode", settings) and part not in compiled
                compiled.add(part)
                found = visit(starter, baseline, taker, number, settings, cold)
                visits.append(found)
                with path.open("ab") as file:
                    file.write(encode(found) + b"\n")
                tries[settings_key(settings)] += 1
                if not found.trusted and tries[settings_key(settings)] < MAX_TRIES:
                    order.append(settings)  # disturbed from beginning to end: once more, later
                words = found.outcome.message if isinstance(found.outcome, Failure) else f"{middle_ratio(found):.3f}x"
                change = describe_change(settings, head.baseline_settings) or "baseline"
                print(
                    f"{name} round {number}/{rounds + more + closest} {index}/{len(order)}  "
                    f"{found.spent_seconds:.1f} s  "
                    f"{words}  {change}",
                    flush=True,
                )
            baseline.close()
    keep(name, Table(head, visits))


def keep(name: str, table: Table, folder: Path = TABLES) -> None:
    """Write a table, and add its row; a table of other measurements that was there stays beside it."""
    path = folder / f"{name}.jsonl.gz"
    if path.exists() and read_table(path).head != table.head:
        number = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        (folder / "earlier").mkdir(exist_ok=True)
        path.rename(folder / "earlier" / f"{name}-{number}.jsonl.gz")
    write_table(table, path)
    facts = Facts(table)
    found = {
        "settings": len(facts.settings),
        "visits": len(table.visits),
        "rounds": len({visit.round for visit in facts.table.visits}),
        "seconds": round(facts.grid_seconds, 3),
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    add_row("tables", name, found, code=(*CODE, WORKLOADS[name][0]))


if __name__ == "__main__":
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", choices=[*WORKLOADS, []], default=[])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--more", type=int, default=5)
    parser.add_argument("--closest", type=int, default=8)
    arguments = parser.parse_args()
    for name in arguments.names or to_measure("tables", WORKLOADS):
        measure(name, arguments.rounds, arguments.more, arguments.closest)
