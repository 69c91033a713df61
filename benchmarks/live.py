"""Who finds the fastest training in the same time: measured live, on one machine, all picks side by side.

    python benchmarks/live.py [NAME ...]

For each workload with a table: `autoaccel tune` as a user types it; Optuna's TPE with single readings for the same
wall-clock time; the fixed advice "everything on"; PyTorch's defaults; the launcher torch.backends.xeon.run_cpu in the
best of its modes; and the table's best point. In the end every pick is measured in fresh processes, all in turns, and
compared by the projected time of the planned run. Results go to benchmarks/results/live.jsonl. Takes about ten minutes
for a workload, in which nothing else should run.
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks" / "tables"))

from measure import WORKLOADS  # noqa: E402
from replay import Facts  # noqa: E402
from rows import add_row, runs_folder, to_measure  # noqa: E402
from table import TABLES, read_table  # noqa: E402

from autoaccel.launch.measuring import Measuring  # noqa: E402
from autoaccel.launch.runner import Runner  # noqa: E402
from autoaccel.records.settings import Settings, describe_change  # noqa: E402
from autoaccel.records.trial import Failure  # noqa: E402
from autoaccel.session.workers import probe_and_describe, turn_seconds_for  # noqa: E402
from autoaccel.session.workloads import find_workload  # noqa: E402
from autoaccel.space.knobs import Place, baseline_settings  # noqa: E402
from autoaccel.statistics.comparison import middle  # noqa: E402
from autoaccel.statistics.steps import step_seconds_of_turns  # noqa: E402

CODE = ("autoaccel", "benchmarks/live.py", "benchmarks/workloads", "examples")
SHARE = 0.098  # of the time that the table took is the budget: what runs when it ends may take a second more
MAX_DROP = "100%"  # every point of the tables is allowed; the metric is measured all the same
HOW_OFTEN = "1000"  # the training is run: a search for the best, not one that a single short run must repay
TIMEOUT_SECONDS = 300.0
ROUNDS, TURNS = 8, 8
MODES = {"ninstances 1": ["--ninstances", "1"], "latency": ["--latency-mode"], "throughput": ["--throughput-mode"]}
_DUMP = "import json, os; print('DUMP' + json.dumps([dict(os.environ), sorted(os.sched_getaffinity(0))]))"


@dataclass(frozen=True)
class Pick:
    """What someone would train with."""

    settings: Settings
    environment: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[int, ...] = ()
    search_seconds: float = 0.0


@contextmanager
def launched_like(pick: Pick) -> Iterator[None]:
    """Start programs in the block with a pick's environment and affinity, which they inherit."""
    before, cores = dict(os.environ), os.sched_getaffinity(0)
    os.environ.update(pick.environment)
    if pick.affinity:
        os.sched_setaffinity(0, pick.affinity)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        os.sched_setaffinity(0, cores)


def pick_of_autoaccel(name: str, budget_seconds: float, own: Settings) -> Pick:
    """Tune as a user does; a run that is there already is not repeated."""
    model, space = WORKLOADS[name]
    folder = runs_folder("live") / name
    if not (folder / "recipe.json").exists():
        command = [sys.executable, "-m", "autoaccel", "tune", model, "--runs", HOW_OFTEN]
        command += ["--budget", f"{budget_seconds:.0f}s", "--max-drop", MAX_DROP]
        command += ["--space", f"benchmarks/tables/{space}", "--output", str(folder)]
        print("$ autoaccel", *command[3:], flush=True)
        subprocess.run(command, cwd=ROOT, check=False)
    recipe = json.loads((folder / "recipe.json").read_text())
    # The recipe names every knob; the table, and so its best, some of them.
    known = {name: value for name, value in recipe["settings"].items() if name in own}
    return Pick(known, search_seconds=recipe["search"]["spent_seconds"])


def measure_alone(runner: Runner, pick: Pick, turn_seconds: float) -> tuple[float, float] | None:
    """Return step seconds and slower first steps of one fresh process, as a plain script measures them."""
    with launched_like(pick):
        measuring = runner.start_measuring(pick.settings, "alone", TIMEOUT_SECONDS, fresh=True)
    if isinstance(measuring, Failure):
        return None
    for _ in range(6):
        measuring.take_turn(turn_seconds, TIMEOUT_SECONDS)
    measuring.close()
    found = measuring.measurement
    steps = [seconds for turn in found.turns for seconds in turn.step_seconds]
    return (statistics.fmean if pick.settings.get("loader.workers") else statistics.median)(
        steps
    ), found.compile_seconds


def pick_of_optuna(runner: Runner, facts: Facts, seconds: float, turn_seconds: float) -> Pick:
    """Search with Optuna's defaults and single readings for so long."""
    space, planned = facts.table.head.space, facts.table.head.facts.planned_steps
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    start = time.perf_counter()
    best, least = facts.table.head.own, math.inf
    while time.perf_counter() - start < seconds:
        trial = study.ask()
        chosen = {name: trial.suggest_categorical(name, values) for name, values in space.open.items()}
        settings = {**space.fixed, **chosen}
        found = measure_alone(runner, Pick(settings), turn_seconds)
        if found is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        total = found[1] + planned * found[0]
        study.tell(trial, total)
        if total < least:
            best, least = settings, total
    return Pick(best, search_seconds=time.perf_counter() - start)


def pick_of_launcher(runner: Runner, own: Settings, turn_seconds: float) -> tuple[Pick, str]:
    """Return PyTorch's defaults under the best of the launcher's modes, by three readings each, and its name."""
    start = time.perf_counter()
    found: list[tuple[float, str, Pick]] = []
    for name, arguments in MODES.items():
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(_DUMP)
            script.flush()
            command = [sys.executable, "-m", "torch.backends.xeon.run_cpu", *arguments, script.name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        dumped = next((line for line in done.stdout.splitlines() if "DUMP" in line), None)
        if dumped is None:
            print(f"run_cpu {name}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}", flush=True)
            continue
        environment, affinity = json.loads(dumped.partition("DUMP")[2])
        changed = {key: value for key, value in environment.items() if os.environ.get(key) != value}
        threads = int(changed.get("OMP_NUM_THREADS", own["threads.intra_op"]))
        pick = Pick({**own, "threads.intra_op": threads}, changed, tuple(affinity))
        readings = [reading for _ in range(3) if (reading := measure_alone(runner, pick, turn_seconds))]
        if readings:
            found.append((statistics.median(step for step, _ in readings), name, pick))
    if not found:
        return Pick(own), "none worked"
    _, name, pick = min(found, key=lambda entry: entry[0])
    return Pick(pick.settings, pick.environment, pick.affinity, time.perf_counter() - start), name


def everything_on(facts: Facts) -> Settings:
    """Return the advice to switch everything on."""
    wished: Settings = {"precision.autocast": "bfloat16", "layout.channels_last": True, "optimizer.fused": True}
    wished |= {"compile.mode": "default", "loader.workers": 2}
    space = facts.table.head.space
    return {**facts.table.head.own, **{name: value for name, value in wished.items() if name in space.open}}


def compare(runner: Runner, picks: Mapping[str, Pick], facts: Facts, turn_seconds: float) -> dict[str, list[float]]:
    """Return the log speed-up of each pick's steps over the defaults, for each round of fresh processes.

    Picks that are the same are measured once: two processes differ by chance.
    """
    steps_per_epoch = facts.table.head.facts.steps_per_epoch
    first = {name: next(one for one in picks if is_same(picks[one], pick)) for name, pick in picks.items()}
    distinct = {name: picks[name] for name in set(first.values())}
    logs: dict[str, list[float]] = {name: [] for name in distinct}
    for number in range(ROUNDS):
        alive: dict[str, Measuring] = {}
        for name, pick in random.Random(number).sample(sorted(distinct.items()), len(distinct)):
            with launched_like(pick):
                measuring = runner.start_measuring(pick.settings, f"final-{name}", TIMEOUT_SECONDS, fresh=True)
            if not isinstance(measuring, Failure):
                alive[name] = measuring
        for turn in range(TURNS):
            for name in random.Random(f"{number} {turn}").sample(sorted(alive), len(alive)):
                alive[name].take_turn(turn_seconds, TIMEOUT_SECONDS)
        steps = {name: step_seconds_of_turns(measuring.turns, steps_per_epoch) for name, measuring in alive.items()}
        for name, measuring in alive.items():
            measuring.close()
            own = steps["defaults"]
            logs[name].append(middle([math.log(a / b) for a, b in zip(own, steps[name], strict=True)]))
    return {name: logs[one] for name, one in first.items()}


def is_same(one: Pick, other: Pick) -> bool:
    """Whether two picks train under the same settings and variables, however long each took to find."""
    return (one.settings, one.environment, one.affinity) == (other.settings, other.environment, other.affinity)


def measure(name: str) -> dict[str, Any]:
    """Return what the contenders' picks are worth on one workload."""
    facts = Facts(read_table(TABLES / f"{name}.jsonl.gz"))
    planned = facts.table.head.facts.planned_steps
    workload = find_workload(str(ROOT / WORKLOADS[name][0]))
    ours = pick_of_autoaccel(name, SHARE * facts.grid_seconds, facts.table.head.own)
    with tempfile.TemporaryDirectory() as folder, Runner(Path(folder), workload) as runner:
        machine, described = probe_and_describe(runner, workload, TIMEOUT_SECONDS)
        here = baseline_settings(Place(machine, described))
        own = {name: here[name] for name in facts.table.head.own}
        runner.enter(Place(machine, described))
        turn_seconds = turn_seconds_for(facts.own_step_seconds)
        launcher, mode = pick_of_launcher(runner, own, turn_seconds)
        best = min(facts.visits, key=lambda key: facts.total_seconds(facts.settings[key], planned))
        picks = {
            "defaults": Pick(own),
            "everything on": Pick(everything_on(facts)),
            "run_cpu": launcher,
            "optuna, single readings": pick_of_optuna(runner, facts, ours.search_seconds, turn_seconds),
            "autoaccel": ours,
            "table's best": Pick(facts.settings[best]),
        }
        logs = compare(runner, picks, facts, turn_seconds)
    startup = facts.table.head.baseline.startup_seconds

    def total(settings: Settings, log: float) -> float:
        compile_seconds = facts.compile_seconds(settings) if settings != own else 0.0
        return startup + compile_seconds + planned * facts.own_step_seconds / math.exp(log)

    rows = {}
    for who, pick in picks.items():
        middle_log = statistics.fmean(logs[who]) if logs[who] else math.nan
        known = own if who == "run_cpu" else pick.settings  # what it launches compiles nothing
        rows[who] = {
            "settings": describe_change(pick.settings, own),
            "step_speedup": math.exp(middle_log),
            "spread": statistics.stdev(logs[who]) if len(logs[who]) > 1 else None,
            "run_speedup": total(own, 0.0) / total(known, middle_log),
            "search_seconds": pick.search_seconds,
        }
    return {
        "planned_steps": planned,
        "run_cpu_mode": mode,
        "table_seconds": facts.grid_seconds,
        "search_share_of_table": ours.search_seconds / facts.grid_seconds,
        "autoaccel_over_best": rows["autoaccel"]["run_speedup"] / rows["table's best"]["run_speedup"],
        "picks": rows,
        "cpu": machine.cpu.model,
    }


def main(names: Sequence[str]) -> None:
    """Measure these workloads, or all that have a table and were not measured with today's code."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for name in names or to_measure(
        "live", [path.name.partition(".")[0] for path in sorted(TABLES.glob("*.jsonl.gz"))]
    ):
        found = measure(name)
        add_row("live", name, found, code=CODE)
        print(name, f"{found['autoaccel_over_best']:.3f} of the table's best")
        for who, row in found["picks"].items():
            print(f"  {who:24} run {row['run_speedup']:.3f}x  step {row['step_speedup']:.3f}x  {row['settings']}")


if __name__ == "__main__":
    main(sys.argv[1:])
