"""What several contenders would train with, measured side by side: fresh processes, alive together, in turns.

Shared by live.py and unseen/measure.py: a pick and the variables that go with it, the picks that anybody could make
without a search, and a round in which all picks are measured.
"""

from __future__ import annotations

import functools
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from autoaccel.records.messages import Failure, GiveTurn
from autoaccel.records.settings import Settings
from autoaccel.statistics.comparison import middle
from autoaccel.statistics.steps import step_seconds_of_turns
from autoaccel.statistics.student import t_quantile
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.starter import WorkerStarter

MODES = {"ninstances 1": ["--ninstances", "1"], "latency": ["--latency-mode"], "throughput": ["--throughput-mode"]}
_DUMP = "import json, os; print('DUMP' + json.dumps([dict(os.environ), sorted(os.sched_getaffinity(0))]))"
_LAUNCHER_READINGS = 3  # of each mode


@dataclass(frozen=True)
class Pick:
    """What someone would train with."""

    settings: Settings
    environment: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[int, ...] = ()
    search_seconds: float = 0.0


def is_same(one: Pick, other: Pick) -> bool:
    """Whether two picks train under the same settings and variables, however long each took to find."""
    return (one.settings, one.environment, one.affinity) == (other.settings, other.environment, other.affinity)


def representatives(picks: Mapping[str, Pick]) -> dict[str, str]:
    """Return for each pick the first that is the same: two processes of one setting differ by chance alone."""
    return {name: next(one for one in picks if is_same(picks[one], pick)) for name, pick in picks.items()}


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


def kept(path: Path, search: Callable[[], Pick]) -> Pick:
    """Return the pick in the file, or search for it and keep it, so that a resumed run need not search again."""
    if path.exists():
        found = json.loads(path.read_text())
        return Pick(found["settings"], found["environment"], tuple(found["affinity"]), found["search_seconds"])
    pick = search()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(pick)))
    return pick


def everything_on(baseline: Settings, open_knobs: Collection[str], workers: int = 2) -> Settings:
    """Return the advice to switch everything on, as far as these knobs are there to be changed."""
    wished: Settings = {"precision.autocast": "bfloat16", "layout.channels_last": True, "optimizer.fused": True}
    wished |= {"compile.mode": "default", "loader.workers": workers}
    return {**baseline, **{name: value for name, value in wished.items() if name in open_knobs}}


def pick_of_launcher(baseline: Settings, read: Callable[[Pick], float | None]) -> Pick:
    """Return PyTorch's defaults under the best of torch.backends.xeon.run_cpu's modes, by three readings each.

    Args:
        baseline: The user's settings.
        read: Returns step seconds of a pick in a fresh process, None if it failed.
    """
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
        threads = int(changed.get("OMP_NUM_THREADS", baseline["threads.intra_op"]))
        pick = Pick({**baseline, "threads.intra_op": threads}, changed, tuple(affinity))
        readings = [reading for _ in range(_LAUNCHER_READINGS) if (reading := read(pick)) is not None]
        if readings:
            found.append((statistics.median(readings), name, pick))
    if not found:
        return Pick(baseline)  # none worked
    _, name, pick = min(found, key=lambda entry: entry[0])
    print(f"run_cpu: {name}", flush=True)
    return Pick(pick.settings, pick.environment, pick.affinity, time.perf_counter() - start)


class Taken(NamedTuple):
    """What a round shows of a pick."""

    log_speedup: float
    """Of its steps over those of the first pick."""
    first_seconds: float
    """What its first steps took beyond settled ones: compilation, above all."""
    step_seconds: float
    """Median over its turns."""


class RoundPlan(NamedTuple):
    """How the processes of a round are measured."""

    order: GiveTurn
    """What each process is told for a turn."""
    turns: int
    """That each takes."""
    steps_per_epoch: int
    timeout_seconds: float
    """For a process until it has warmed up, a compilation included, and for each turn."""


def measure_round(
    starter: WorkerStarter,
    picks: Mapping[str, Pick],
    number: int,
    plan: RoundPlan,
) -> dict[str, Taken]:
    """Return what fresh processes, all alive and measured in turns, show of each pick.

    A pick that fails is left out; all are, if the first of them does, which the others are held against.

    Args:
        starter: That starts them.
        picks: Name -> pick, the user's own first. Those that are the same are measured once.
        number: Of the round; it decides on the order.
        plan: How each is measured.
    """
    first = representatives(picks)

    def start(name: str) -> Measuring | Failure:
        pick = picks[name]
        with launched_like(pick):
            return starter.start_measuring(pick.settings, f"final-{name}", plan.timeout_seconds, fresh=True)

    own = next(iter(picks))
    taken = take_turns({name: functools.partial(start, name) for name in dict.fromkeys(first.values())}, number, plan)
    return {name: taken[one] for name, one in first.items() if one in taken} if own in taken else {}


Start = Callable[[], Measuring | Failure]
"""Starts a process, and returns it once it has warmed up."""


def take_turns(starts: Mapping[str, Start], number: int, plan: RoundPlan) -> dict[str, Taken]:
    """Return what processes show that are alive together and take turns: nothing if the first of them fails.

    Args:
        starts: Name -> what starts it, the one first that the others are held against.
        number: Of the round; it decides on the order.
        plan: How each is measured.
    """
    order, turns, steps_per_epoch, timeout_seconds = plan
    alive: dict[str, Measuring] = {}
    try:
        for name in random.Random(number).sample(sorted(starts), len(starts)):
            measuring = starts[name]()
            if not isinstance(measuring, Failure):
                alive[name] = measuring
        for turn in range(turns):
            for name in random.Random(f"{number} {turn}").sample(sorted(alive), len(alive)):
                if isinstance(alive[name].take_turn(order, timeout_seconds), Failure):
                    alive.pop(name).close()
    finally:
        for measuring in alive.values():
            measuring.close()
    steps = {
        name: step_seconds_of_turns(measuring.turns, steps_per_epoch, measuring.batch_factor)
        for name, measuring in alive.items()
    }
    baseline = steps.get(next(iter(starts)))
    if baseline is None:
        return {}
    return {
        name: Taken(
            middle([math.log(a / b) for a, b in zip(baseline, steps[name], strict=True)]),
            measuring.measurement.compile_seconds,
            statistics.median(steps[name]),
        )
        for name, measuring in alive.items()
    }


def mean_and_radius(logs: Sequence[float]) -> tuple[float, float]:
    """Return the mean and half the width of Student's 95 % interval; nan where there are too few values."""
    if len(logs) < 2:
        return (logs[0] if logs else math.nan), math.nan
    radius = t_quantile(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return statistics.fmean(logs), radius
