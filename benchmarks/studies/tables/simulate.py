"""Replay searches on the tables, autoaccel's and its peers', thousands of them in a minute.

    python -m benchmarks.studies.tables.simulate [--searches 200] [--steps own|50|50000 ...] [NAME ...]

Half of a table's rounds is replayed, the other half says what is true, and the halves are drawn anew (halves.py).
Regret: by how much the projected run of the settings that a search ends with is longer than that of the best, as the
half tells it that no search saw. Time until close: when a search first held settings whose run is longer by at most
2 %, or by the table's resolution where that is coarser. Everything that a search waits for is paid: starts,
compilations that nothing before it has done, turns, and for autoaccel describing, measuring and profiling the baseline
first, and the proof of what it found. Results go to benchmarks/results/simulation.jsonl. What is there of today's code
is not simulated again unless it is named.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import optuna

from autoaccel.records.profile import Finding
from autoaccel.records.progress import ignore
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Trial
from autoaccel.search.economy import Economy
from autoaccel.search.instruments import Instruments
from autoaccel.search.loop import Search
from autoaccel.search.task import SearchTask, expect
from autoaccel.space.narrow import narrow
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.peers import FINALISTS, PeerTask, ProjectedRun, search_with_optuna
from benchmarks.harness.recorded import MIN_SPEEDUP
from benchmarks.harness.replay import TRAININGS, Facts, Replay, SimulatedClock, seconds_of
from benchmarks.harness.rows import Provenance, add_row, provenance, to_measure
from benchmarks.harness.table import CODE as TABLES_CODE
from benchmarks.harness.table import TABLES, read_table
from benchmarks.studies.tables.halves import Splits, interval, regret
from benchmarks.studies.tables.proofs import History, ReplayTask, run

ROOMS = ("advise", "bench", "proof", "runs", "search", "session", "space", "statistics")
CODE = (
    *(f"autoaccel/{room}" for room in ROOMS),
    "benchmarks/harness/peers.py",
    "benchmarks/harness/recorded.py",
    *TABLES_CODE,
    *(f"benchmarks/studies/tables/{module}.py" for module in ("halves", "proofs", "simulate")),
)
SHARE = 0.1  # of the grid's cost that a search may take
CLOSE = 1.02
SLOW_PEERS = {"optuna-gp": 20}  # searches; each fits a Gaussian process per trial

Searcher = Callable[[ReplayTask], History]


def autoaccel(task: ReplayTask) -> History:
    """Search and prove as `autoaccel tune` does; what cannot be proven is not held."""
    return run(task)


def autoaccel_unproven(task: ReplayTask) -> History:
    """Search as `autoaccel tune` does, and believe the best without a proof, as the peers do."""
    return search_space(task, narrowed(task), task.facts.findings)


def narrowed(task: ReplayTask) -> SearchSpace:
    """Return what `autoaccel tune` would search."""
    return narrow(task.head.space, task.head.baseline_settings, task.facts.findings, MIN_SPEEDUP)


def search_space(replayed: ReplayTask, space: SearchSpace, findings: Sequence[Finding]) -> History:
    """Search this space as `autoaccel tune` does, with these findings to go by, and prove nothing."""
    facts, head = replayed.facts, replayed.head
    clock = SimulatedClock(replayed.budget_seconds)
    baseline = head.baseline
    clock.spent = head.prepare_seconds + head.profile_seconds + facts.ready_seconds
    clock.spent += sum(map(seconds_of, baseline.turns))
    history: History = []
    economy = Economy(
        trainings=TRAININGS,
        planned_steps=replayed.planned_steps,
        step_seconds=facts.baseline_step_seconds,
        startup_seconds=baseline.startup_seconds,
        compile_seconds=baseline.compile_seconds,
        trial_seconds=facts.trial_seconds,
    )
    prior = expect(space, facts.context, head.baseline_settings, findings)
    task = SearchTask(space, head.baseline_settings, economy, prior, replayed.seed)

    def keep(trial: Trial) -> None:
        best = search.best
        history.append((clock.spent, best.settings if best else head.baseline_settings))

    replay = Replay(facts, clock, random.Random(replayed.seed))
    search = Search(task, Instruments(replay.compare, clock, keep, ignore))
    search.run(reserve=lambda settings, speedup: 0.0)
    history.append((clock.spent, search.best.settings if search.best else head.baseline_settings))
    return history


class SingleReadings:
    """A search that believes what one process, measured alone, once showed."""

    def __init__(self, task: ReplayTask) -> None:
        """Begin with nothing measured."""
        self.clock = SimulatedClock(task.budget_seconds)
        self.history: History = []
        self._facts = task.facts
        self._replay = Replay(task.facts, self.clock, random.Random(task.seed))
        self._planned_steps = task.planned_steps
        self._least = math.inf

    def read(self, settings: Settings) -> float:
        """Return the projected time of a run, infinite if it failed."""
        reading = self._replay.read_alone(settings)
        total = math.inf
        if reading is not None:
            step_seconds, _ = reading
            total = self._facts.table.head.baseline.startup_seconds + self._planned_steps * step_seconds
            total += self._facts.compile_seconds(settings).average(TRAININGS)
        if total < self._least:
            self._least = total
            self.history.append((self.clock.spent, settings))
        return total


def random_search(task: ReplayTask) -> History:
    """Try settings in random order."""
    one = SingleReadings(task)
    keys = sorted(task.facts.settings)
    random.Random(task.seed).shuffle(keys)
    for key in keys:
        if one.clock.left <= 0:
            break
        one.read(task.facts.settings[key])
    return one.history


def grid(task: ReplayTask) -> History:
    """Try every setting once, in order; nothing is held before the end."""
    one = SingleReadings(task._replace(budget_seconds=math.inf))
    for key in sorted(task.facts.settings):
        one.read(task.facts.settings[key])
    return [(one.clock.spent, one.history[-1][1])]


def everything_on(task: ReplayTask) -> History:
    """Believe the advice: all switches on."""
    one = SingleReadings(task._replace(budget_seconds=math.inf))
    space = task.head.space
    wished: Settings = {"precision.autocast": "bfloat16", "layout.channels_last": True, "optimizer.fused": True}
    wished |= {"compile.mode": "default", "loader.workers": 2}
    settings = {**task.head.baseline_settings, **{name: wished[name] for name in wished if name in space.open}}
    one.read(settings)
    return one.history


def optuna_search(sampler: Callable[[int], optuna.samplers.BaseSampler], finalists: int = FINALISTS) -> Searcher:
    """Return a search with one of Optuna's samplers: own settings first, its best measured again (peers.py)."""

    def search(task: ReplayTask) -> History:
        head, clock = task.head, SimulatedClock(task.budget_seconds)
        replay = Replay(task.facts, clock, random.Random(task.seed))
        history: History = []
        peer = PeerTask(
            head.space,
            head.baseline_settings,
            replay.read_alone,
            ProjectedRun(task.planned_steps, head.baseline.startup_seconds, TRAININGS),
            task.budget_seconds,
            lambda: clock.spent,
        )
        search_with_optuna(
            peer, sampler(task.seed), lambda settings: history.append((clock.spent, settings)), finalists
        )
        return history

    return search


SEARCHERS: dict[str, Searcher] = {
    "autoaccel": autoaccel,
    "autoaccel, unproven": autoaccel_unproven,
    "optuna-tpe": optuna_search(lambda seed: optuna.samplers.TPESampler(seed=seed)),
    "optuna-tpe, single readings": optuna_search(lambda seed: optuna.samplers.TPESampler(seed=seed), 0),
    "optuna-gp": optuna_search(lambda seed: optuna.samplers.GPSampler(seed=seed)),
    "random": random_search,
    "grid": grid,
    "everything-on": everything_on,
}


def simulate(search: Searcher, table: Splits, planned_steps: int, searches: int) -> dict[str, Any]:
    """Return what came of this many searches on one table, each by a half that it does not see."""
    budget_seconds = SHARE * table.whole.grid_seconds
    close = 1 + max(CLOSE - 1, table.resolution(planned_steps))
    regrets, to_close, spent, kept_baseline = [], [], [], 0
    for seed in range(searches):
        truth, replayed = table.half(seed)
        history = search(ReplayTask(replayed, planned_steps, budget_seconds, seed))
        # Whoever searches holds the user's own settings until something else is measured.
        held = [(0.0, truth.table.head.baseline_settings), *history]
        found = [(when, regret(truth, settings, planned_steps)) for when, settings in held]
        kept_baseline += held[-1][1] == truth.table.head.baseline_settings
        regrets.append(found[-1][1])
        to_close.append(next((when for when, value in found if value <= close - 1), math.inf))
        spent.append(found[-1][0])
    median_to_close = statistics.median(to_close)
    return {
        "searches": len(regrets),
        "median_regret": statistics.median(regrets),
        "mean_regret": statistics.fmean(regrets),
        "mean_regret_interval": interval(regrets, statistics.fmean),
        "p90_regret": sorted(regrets)[math.ceil(0.9 * len(regrets)) - 1],
        "median_seconds": statistics.median(spent),
        "of_single_pass": statistics.median(spent) / table.single_pass_seconds,
        "of_single_pass_interval": [value / table.single_pass_seconds for value in interval(spent)],
        "median_seconds_to_close": median_to_close if math.isfinite(median_to_close) else None,
        "reached_close": statistics.fmean(math.isfinite(when) for when in to_close),
        "kept_own": kept_baseline / len(regrets),
    }


def judge(facts: Facts, planned_steps: int, histories: Sequence[History]) -> dict[str, Any]:
    """Return what these searches on one table came to."""
    best = min(facts.total_seconds(facts.settings[key], planned_steps) for key in facts.visits)
    regrets, to_close, spent = [], [], []
    for history in histories:
        # Whoever searches holds the user's own settings until something else is measured.
        held = [(0.0, facts.table.head.baseline_settings), *history]
        totals = [(when, facts.total_seconds(settings, planned_steps)) for when, settings in held]
        regrets.append(totals[-1][1] / best - 1)
        to_close.append(next((when for when, total in totals if total <= CLOSE * best), math.inf))
        spent.append(totals[-1][0])
    median_to_close = statistics.median(to_close)
    return {
        "searches": len(regrets),
        "median_regret": statistics.median(regrets),
        "p90_regret": sorted(regrets)[math.ceil(0.9 * len(regrets)) - 1],
        "median_seconds": statistics.median(spent),
        "median_seconds_to_close": median_to_close if math.isfinite(median_to_close) else None,
        "reached_close": statistics.fmean(math.isfinite(when) for when in to_close),
    }


def made_from(name: str, code: Sequence[str] = CODE) -> Provenance:
    """Return the provenance of what is replayed from a table: the processor is the one that the table was read on.

    Args:
        name: Of the table.
        code: Files or folders that the row speaks of.
    """
    machine = read_table(TABLES / f"{name}.jsonl.gz").head.machine
    cpu = f"{machine.cpu.model} {machine.cpu.revision}".strip()
    return msgspec.structs.replace(provenance(code), cpu=f"{cpu} (the tables')", cores=machine.usable_cores)


def show(name: str, planned_steps: int, resolution: float, rows: dict[str, dict[str, Any]]) -> None:
    """Print one table's results."""
    print(f"\n{name}, {planned_steps:,} steps, resolution {resolution:.1%}")
    for peer, row in rows.items():
        seconds = row["median_seconds_to_close"]
        after = "seldom" if seconds is None else f"after {seconds:.0f} s"
        low, high = row["mean_regret_interval"]
        print(
            f"  {peer:27} regret {row['mean_regret']:7.2%} on average ({low:.2%} to {high:.2%}), "
            f"{row['p90_regret']:7.2%} p90; {row['median_seconds']:6.0f} s = {row['of_single_pass']:6.1%} of a single "
            f"pass; close {after} ({row['reached_close']:.0%})",
            flush=True,
        )


def files(folder: Path) -> list[Path]:
    """Return the tables in a folder."""
    return sorted(folder.glob("*.jsonl*"))


def horizons(names: Sequence[str], steps: Sequence[str], folder: Path = TABLES) -> Iterator[tuple[str, Facts, int]]:
    """Yield each table of these names, or all, with each number of planned steps; "own" is the workload's."""
    for path in files(folder):
        name = path.name.partition(".")[0]
        if not names or name in names:
            facts = Facts(read_table(path))
            for planned in steps:
                yield name, facts, facts.table.head.facts.planned_steps if planned == "own" else int(planned)


def main(arguments: Sequence[str]) -> None:
    """Simulate; write the results."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--searches", type=int, default=200)
    usual = [peer for peer in SEARCHERS if peer not in SLOW_PEERS]
    parser.add_argument("--peers", nargs="*", default=usual, choices=list(SEARCHERS))
    parser.add_argument("--steps", nargs="*", default=["own", "50000"], help="planned steps; own: the workload's")
    parser.add_argument("--tables", type=Path, default=TABLES)
    parsed = parser.parse_args(arguments)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    names = parsed.names or to_measure("simulation", [path.name.partition(".")[0] for path in files(parsed.tables)])
    start = time.perf_counter()
    for name in names:
        made = made_from(name)  # before, in case somebody edits the code meanwhile
        table = Splits(read_table(parsed.tables / f"{name}.jsonl.gz"))
        found: dict[str, Any] = {"single_pass_seconds": table.single_pass_seconds, "horizons": {}}
        for _, facts, planned in horizons([name], parsed.steps, parsed.tables):
            rows = {
                peer: simulate(
                    SEARCHERS[peer], table, planned, min(parsed.searches, SLOW_PEERS.get(peer, parsed.searches))
                )
                for peer in parsed.peers
            }
            resolution = table.resolution(planned)
            is_measured = planned == facts.table.head.facts.planned_steps
            found["horizons"][str(planned)] = {"own": is_measured, "resolution": resolution, "peers": rows}
            show(name, planned, resolution, rows)
        if set(usual) <= set(parsed.peers):
            add_row("simulation", name, found, made=made)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
