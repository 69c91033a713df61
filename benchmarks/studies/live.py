"""Who finds the fastest training in the same time: measured live, on one machine, all picks side by side.

    python -m benchmarks.studies.live [--rescore] [--seconds S --rounds N] [NAME ...]

For each workload with a table: `autoaccel tune` as a user types it; Optuna's TPE for the same budget, with the same
objective, the user's own settings first and its best measured again (peers.py); the fixed advice "everything on";
PyTorch's defaults; the launcher torch.backends.xeon.run_cpu in the best of its modes; and the table's best point. In
the end every pick is measured in fresh processes, all in turns, and compared by the projected time of the planned run,
first compilation included. Results go to benchmarks/results/live.jsonl, a row for each workload; what is there of
today's code is not measured again unless it is named, and picks that were found before an interruption are kept. Takes
a quarter of an hour for a workload, in which nothing else should run. `--seconds` and `--rounds` try it in small and
add no row.
`--rescore` scores the picks of rows that are there, with a first compilation and with a warm one.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import optuna

from autoaccel.records.messages import Failure, GiveTurn
from autoaccel.records.settings import Settings, describe_change
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.statistics.runs import CompileSeconds
from autoaccel.statistics.turn_plan import plan_turns
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.starter import WorkerStarter
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.peers import PeerTask, ProjectedRun, Reading, search_with_optuna
from benchmarks.harness.replay import TRAININGS, Facts
from benchmarks.harness.rows import ROOT, add_row, latest, provenance, read_rows, runs_folder, to_measure
from benchmarks.harness.side_by_side import (
    Pick,
    RoundPlan,
    everything_on,
    kept,
    launched_like,
    mean_and_radius,
    measure_round,
    pick_of_launcher,
)
from benchmarks.harness.table import CODE as TABLES_CODE
from benchmarks.harness.table import TABLES, read_table
from benchmarks.page.searches import changes_in
from benchmarks.studies.tables.measure import WORKLOADS

CODE = (
    "autoaccel",
    "benchmarks/studies/live.py",
    "benchmarks/harness/peers.py",
    "benchmarks/harness/side_by_side.py",
    "benchmarks/workloads",
    "examples",
)
SHARE = 0.098  # of the time that the table took is the budget: what runs when it ends may take a second more
MAX_DROP = "100%"  # every point of the tables is allowed; the metric is measured all the same
TIMEOUT_SECONDS = 300.0
ROUNDS, TURNS = 8, 8


def pick_of_autoaccel(name: str, folder: Path, budget_seconds: float, baseline: Settings) -> Pick:
    """Tune as a user does; a run that is there already is not repeated."""
    model, space = WORKLOADS[name]
    if not (folder / "recipe.json").exists():
        command = [sys.executable, "-m", "autoaccel", "tune", model, "--trainings", str(TRAININGS)]
        command += ["--budget", f"{budget_seconds:.0f}s", "--max-drop", MAX_DROP]
        command += ["--space", f"benchmarks/spaces/{space}", "--output", str(folder)]
        print("$ autoaccel", *command[3:], flush=True)
        subprocess.run(command, cwd=ROOT, check=False)
    recipe = json.loads((folder / "recipe.json").read_text())
    # The recipe names every knob; the table, and so its best, some of them.
    known = {name: value for name, value in recipe["settings"].items() if name in baseline}
    return Pick(known, search_seconds=recipe["search"]["spent_seconds"])


def measure_alone(starter: WorkerStarter, pick: Pick, order: GiveTurn) -> tuple[float, float] | None:
    """Return step seconds and slower first steps of one fresh process, as a plain script measures them."""
    with launched_like(pick):
        measuring = starter.start_measuring(pick.settings, "alone", TIMEOUT_SECONDS, fresh=True)
    if isinstance(measuring, Failure):
        return None
    for _ in range(6):
        measuring.take_turn(order, TIMEOUT_SECONDS)
    measuring.close()
    found = measuring.measurement
    steps = [seconds for turn in found.turns for seconds in turn.step_seconds]
    return (statistics.fmean if pick.settings.get("loader.workers") else statistics.median)(
        steps
    ), found.compile_seconds


def pick_of_optuna(
    starter: WorkerStarter, facts: Facts, baseline: Settings, budget_seconds: float, order: GiveTurn
) -> Pick:
    """Search with Optuna's default sampler for so long."""
    head = facts.table.head
    start = time.perf_counter()

    def read(settings: Settings) -> Reading | None:
        return measure_alone(starter, Pick(settings), order)

    run = ProjectedRun(head.facts.planned_steps, head.baseline.startup_seconds, TRAININGS)
    sampler = optuna.samplers.TPESampler(seed=0)
    task = PeerTask(head.space, baseline, read, run, budget_seconds, time.perf_counter)
    best = search_with_optuna(task, sampler)
    return Pick(best, search_seconds=time.perf_counter() - start)


def find_picks(
    starter: WorkerStarter, name: str, facts: Facts, baseline: Settings, seconds: float, folder: Path
) -> dict[str, Pick]:
    """Return what each contender would train with, autoaccel's search and its peer's for the same budget."""
    order = plan_turns(facts.baseline_step_seconds).order
    planned = facts.table.head.facts.planned_steps

    def read(pick: Pick) -> float | None:
        reading = measure_alone(starter, pick, order)
        return None if reading is None else reading[0]

    best = min(facts.visits, key=lambda key: facts.total_seconds(facts.settings[key], planned))
    return {
        "defaults": Pick(baseline),
        "everything on": Pick(everything_on(baseline, facts.table.head.space.open)),
        "run_cpu": kept(folder / "run_cpu.json", lambda: pick_of_launcher(baseline, read)),
        "optuna": kept(folder / "optuna.json", lambda: pick_of_optuna(starter, facts, baseline, seconds, order)),
        "autoaccel": pick_of_autoaccel(name, folder / "autoaccel", seconds, baseline),
        "table's best": Pick(facts.settings[best]),
    }


def compare(starter: WorkerStarter, picks: Mapping[str, Pick], facts: Facts, rounds: int) -> dict[str, list[float]]:
    """Return the log speed-up of each pick's steps over the defaults, for each round of fresh processes."""
    order, steps_per_epoch = plan_turns(facts.baseline_step_seconds).order, facts.table.head.facts.steps_per_epoch
    taken = [
        measure_round(starter, picks, number, RoundPlan(order, TURNS, steps_per_epoch, TIMEOUT_SECONDS))
        for number in range(rounds)
    ]
    return {name: [found[name].log_speedup for found in taken if name in found] for name in picks}


def measure(name: str, seconds: float | None, rounds: int, folder: Path) -> dict[str, Any]:
    """Return what the contenders' picks are worth on one workload, each search with so many seconds."""
    facts = Facts(read_table(TABLES / f"{name}.jsonl.gz"))
    budget_seconds = seconds or SHARE * facts.grid_seconds
    workload = find_workload(str(ROOT / WORKLOADS[name][0]))
    with tempfile.TemporaryDirectory() as scratch, WorkerStarter(Path(scratch), workload) as starter:
        machine, described = probe_and_describe(starter, workload, TIMEOUT_SECONDS)
        here = baseline_settings(KnobContext(machine, described))
        baseline = {name: here[name] for name in facts.table.head.baseline_settings}
        starter = starter.at(KnobContext(machine, described))
        picks = find_picks(starter, name, facts, baseline, budget_seconds, folder)
        logs = compare(starter, picks, facts, rounds)
    rows = {who: scored(facts, pick, who, baseline, logs[who]) for who, pick in picks.items()}
    return {
        "planned_steps": facts.table.head.facts.planned_steps,
        "rounds": rounds,
        "budget_seconds": budget_seconds,
        "table_seconds": facts.grid_seconds,
        "search_share_of_table": picks["autoaccel"].search_seconds / facts.grid_seconds,
        "autoaccel_over_best": rows["autoaccel"]["run_speedup"] / rows["table's best"]["run_speedup"],
        "picks": rows,
    }


def scored(facts: Facts, pick: Pick, who: str, baseline: Settings, logs: Sequence[float]) -> dict[str, Any]:
    """Return what a pick is worth: its steps and its planned run, over the user's own, with Student's 95 % interval."""
    known = baseline if who == "run_cpu" else pick.settings  # what it launches compiles nothing
    compile_seconds = facts.compile_seconds(known).average(TRAININGS) if known != baseline else 0.0
    middle_log, radius = mean_and_radius(logs)
    spread = statistics.stdev(logs) if len(logs) > 1 else math.nan
    speedups = [run_speedup(facts, compile_seconds, middle_log + shift) for shift in (0.0, -radius, radius)]
    return {
        "settings": describe_change(pick.settings, baseline),
        "step_speedup": math.exp(middle_log),
        "spread": spread if math.isfinite(spread) else None,
        "run_speedup": speedups[0],
        "run_interval": speedups[1:] if math.isfinite(radius) else None,
        "search_seconds": pick.search_seconds,
    }


def run_speedup(facts: Facts, compile_seconds: float, log: float) -> float:
    """Return the planned run's under the user's own settings over that with this log speed-up of the steps."""
    head = facts.table.head
    baseline_seconds = head.facts.planned_steps * facts.baseline_step_seconds
    startup = head.baseline.startup_seconds
    return (startup + baseline_seconds) / (startup + compile_seconds + baseline_seconds / math.exp(log))


def rescored(found: Mapping[str, Any], facts: Facts) -> dict[str, dict[str, float]]:
    """Return the recorded picks' speed-up of the planned run, with a first compilation (cold) and with a warm one."""
    baseline = facts.table.head.baseline_settings
    known = {changes_in(describe_change(settings, baseline)): settings for settings in facts.settings.values()}
    rows = {}
    for who, pick in found["picks"].items():
        settings = known[changes_in(pick["settings"])]
        found_compiled = facts.compile_seconds(settings) if settings != baseline else CompileSeconds(0.0, 0.0)
        log = math.log(pick["step_speedup"])
        rows[who] = {kind: run_speedup(facts, seconds, log) for kind, seconds in found_compiled._asdict().items()}
    return rows


def rescore() -> None:
    """Score the picks of the rows that count once more."""
    for name, row in latest(read_rows("live")).items():
        facts = Facts(read_table(TABLES / f"{name}.jsonl.gz"))
        found = rescored(row.found, facts)
        made = msgspec.structs.replace(
            provenance(("benchmarks/studies/live.py", *TABLES_CODE)),
            cpu=row.made.cpu,
        )
        add_row("live_rescored", name, {"of": row.made.date, "picks": found}, made=made)
        print(name, {who: f"{one['cold']:.2f} cold, {one['warm']:.2f} warm" for who, one in found.items()})


def main(arguments: Sequence[str]) -> None:
    """Measure these workloads, or all that have a table and were not measured with today's code."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rescore", action="store_true")
    parser.add_argument("--seconds", type=float, help="for each search; adds no row")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the final comparison")
    parsed = parser.parse_args(arguments)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if parsed.rescore:
        rescore()
        return
    tried = parsed.seconds is not None or parsed.rounds != ROUNDS
    names = [path.name.partition(".")[0] for path in sorted(TABLES.glob("*.jsonl.gz"))]
    for name in parsed.names or to_measure("live", names):
        made = provenance(CODE)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) if tried else runs_folder("live") / name
            found = measure(name, parsed.seconds, parsed.rounds, folder)
        if not tried:
            add_row("live", name, found, made=made)
        print(name, f"{found['autoaccel_over_best']:.3f} of the table's best")
        for who, row in found["picks"].items():
            print(f"  {who:24} run {row['run_speedup']:.3f}x  step {row['step_speedup']:.3f}x  {row['settings']}")


if __name__ == "__main__":
    main(sys.argv[1:])
