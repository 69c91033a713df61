"""What those who are no tuner would train an unseen workload with, and what it took to find out.

All of them measure with plain.py: one fresh process after the other, a few steps each, and a clock. They minimise what
they are scored by, the projected time of the whole planned run, on average over the 20 of which only the first
compiles.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import optuna

from autoaccel.records.base import Record, decode, encode
from autoaccel.records.options import DEFAULT_TRAININGS
from autoaccel.records.settings import Settings, Value, changed, describe_change, settings_key
from autoaccel.records.space import SearchSpace
from benchmarks.harness.peers import PeerTask, ProjectedRun, Reading, search_with_optuna
from benchmarks.harness.rows import ROOT
from benchmarks.harness.side_by_side import Pick, launched_like, pick_of_launcher
from benchmarks.studies.unseen.suite import MAX_SETTINGS, WAITS, hand_grid

PLAIN = Path(__file__).with_name("plain.py")
BUDGET_SECONDS = 600.0  # of Optuna: autoaccel's default
TIMEOUT_SECONDS = 300.0  # for a process: half of that, a first compilation included
READING_SECONDS, READING_STEPS = 2.0, 3  # of a plain reading at least: of long steps few
GRID_ROUNDS = (MAX_SETTINGS, 6, 3, 3)  # so many settings are read in each, the best so far
GRID_SECONDS = 900.0
"""When the grid has taken so long, what is left of it after its first round is left out: where every step takes
seconds, a person would not read their best settings four times either."""


@dataclass(frozen=True)
class Case:
    """One workload on this machine."""

    name: str
    path: Path
    baseline: Settings
    space: SearchSpace
    """What Optuna searches, and the hand grid is drawn from."""
    planned_steps: int
    steps_per_epoch: int
    folder: Path
    """Of what is kept until a piece is whole, and of compiled code."""
    budget_seconds: float | None
    """Of Optuna; None: as long as autoaccel has unless it is told."""
    variables: Callable[[Settings], Mapping[str, str]] = lambda settings: {}
    """Returns those with which a process must be started that trains under settings."""


class PlainReading(Record, frozen=True):
    """What one fresh process showed; seconds are 0 where it failed."""

    round: int
    settings: Settings
    """That differ from the user's own."""
    failure: str = ""
    step_seconds: float = 0.0
    first_seconds: float = 0.0
    startup_seconds: float = 0.0
    wait_share: float = 0.0
    in_vain: tuple[str, ...] = ()
    """Those of the settings that did nothing."""
    spent_seconds: float = 0.0
    date: str = ""
    """UTC, ISO 8601, to the second."""


def read_plainly(case: Case, pick: Pick, who: str, number: int = 0) -> PlainReading:
    """Return what a fresh process shows under a pick's settings, environment and affinity.

    Args:
        case: The workload.
        pick: What it trains with.
        who: Asks: each contender pays for its own compilations.
        number: Of the round.
    """
    changes = changed(pick.settings, case.baseline)
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(case.folder / f"compiled-{who}")}
    command = [sys.executable, str(PLAIN), str(case.path), json.dumps(changes)]
    command += ["--seconds", str(READING_SECONDS), "--steps", str(READING_STEPS)]
    start = time.perf_counter()
    with launched_like(Pick(pick.settings, {**pick.environment, **cache}, pick.affinity)):
        printed, failure = _run(command)
    spent = time.perf_counter() - start
    if failure:
        found = PlainReading(number, changes, failure=failure, spent_seconds=spent, date=date)
    else:
        shown = json.loads(printed)
        # Loader workers deliver in bursts: most steps wait for nothing, and one for all.
        middle = statistics.fmean if pick.settings["loader.workers"] else statistics.median
        found = PlainReading(
            number,
            changes,
            step_seconds=middle(shown["step_seconds"]),
            first_seconds=shown["first_seconds"],
            startup_seconds=spent - shown["made_seconds"],
            wait_share=shown["wait_share"],
            in_vain=tuple(shown["in_vain"]),
            spent_seconds=spent,
            date=date,
        )
    told = failure or f"{found.step_seconds:.3f} s a step"
    print(f"{case.name} {who}: {describe_change(pick.settings, case.baseline)}: {told}", flush=True)
    return found


def _run(command: Sequence[str]) -> tuple[str, str]:
    """Run a program; return the last line that it printed, and why it failed if it did."""
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        printed, said = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        printed, said = "", f"not ready after {TIMEOUT_SECONDS:.0f} s"
    finally:
        _kill(process)  # and what it started and left behind
    if process.returncode or not printed.strip():
        return "", (said.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
    return printed.strip().splitlines()[-1], ""


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # nothing is left of it
    process.wait()


class Grid:
    """The hand grid of a workload: readings, kept one by one, so that a resumed search repeats none."""

    def __init__(self, case: Case) -> None:
        """Take up what was read before; read the user's own settings if nothing was."""
        self._case = case
        self._path = case.folder / "grid.jsonl"
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        self.readings = [decode(line, PlainReading) for line in lines]
        self.baseline = self._read(1, case.baseline)
        """Of the user's own settings, the first."""

    def _kept(self, number: int, settings: Settings) -> PlainReading | None:
        """Return the reading of these settings in this round, if it was taken before."""
        changes = changed(settings, self._case.baseline)
        return next((one for one in self.readings if (one.round, one.settings) == (number, changes)), None)

    def _read(self, number: int, settings: Settings) -> PlainReading:
        """Return a reading of these settings, taken now or before."""
        if kept := self._kept(number, settings):
            return kept
        reading = read_plainly(self._case, Pick(settings), "grid", number)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(encode(reading) + b"\n")
        self.readings.append(reading)
        return reading

    @property
    def startup_seconds(self) -> float:
        """Median over all readings; compilation is not in it."""
        return statistics.median(reading.startup_seconds for reading in self.readings if not reading.failure)

    @property
    def spent_seconds(self) -> float:
        """Of all readings."""
        return sum(reading.spent_seconds for reading in self.readings)

    def ranked(self, among: Sequence[Settings], before: int | None = None) -> list[Settings]:
        """Return those of the settings that worked, by the projected time of the planned run, the shortest first.

        Args:
            among: Settings.
            before: Only readings of earlier rounds than this one count; None: all.
        """
        counted = [one for one in self.readings if not one.failure and (before is None or one.round < before)]
        run = ProjectedRun(self._case.planned_steps, self.startup_seconds, DEFAULT_TRAININGS)
        seconds: dict[str, list[float]] = {}
        for reading in counted:
            settings = {**self._case.baseline, **reading.settings}
            projected = run.seconds(settings, (reading.step_seconds, reading.first_seconds))
            seconds.setdefault(settings_key(settings), []).append(projected)
        worked = [settings for settings in among if settings_key(settings) in seconds]
        return sorted(worked, key=lambda settings: statistics.median(seconds[settings_key(settings)]))

    def search(self, rounds: Sequence[int] = GRID_ROUNDS) -> Pick:
        """Return the best of the grid.

        Args:
            rounds: How many settings are read in each round, the best by those before it. The first round is taken
                whole; after it nothing is read that is likely to end beyond `GRID_SECONDS`.
        """
        waits = self.baseline.wait_share >= WAITS
        settings = hand_grid(self._case.baseline, self._case.space.open, waits)
        for number, count in enumerate(rounds, start=1):
            if number > 1:
                settings = self.ranked(settings, number)[:count]
            for one in random.Random(f"{self._case.name} {number}").sample(settings, len(settings)):
                if self._kept(number, one) is None and not self._fits(number, one):
                    continue
                self._read(number, one)
        return Pick(self.ranked(settings)[0])

    def _fits(self, number: int, settings: Settings) -> bool:
        """Whether there is time for one more reading, by what the last of these settings took."""
        changes = changed(settings, self._case.baseline)
        last = [one.spent_seconds for one in self.readings if one.settings == changes][-1:]
        return number == 1 or self.spent_seconds + sum(last) <= GRID_SECONDS


def values_in_vain(readings: Iterable[PlainReading]) -> dict[str, list[Value]]:
    """Return knob -> its values that did nothing in any of the readings."""
    found: dict[str, list[Value]] = {}
    for reading in readings:
        for name in reading.in_vain:
            if reading.settings[name] not in found.setdefault(name, []):
                found[name].append(reading.settings[name])
    return found


def effective(settings: Settings, baseline: Settings, in_vain: Mapping[str, Sequence[Value]]) -> Settings:
    """Return the settings as they act: under the tuner's own measurement a setting that does nothing is a failure."""
    return {name: baseline[name] if value in in_vain.get(name, ()) else value for name, value in settings.items()}


def choice_of(pick: Pick, baseline: Settings, readings: Iterable[PlainReading] = ()) -> dict[str, Any]:
    """Return what a row holds of a pick.

    Args:
        pick: Chosen.
        baseline: The user's settings.
        readings: That the choice rests on: what did nothing in them is no part of the choice.
    """
    changes = changed(effective(pick.settings, baseline, values_in_vain(readings)), baseline)
    return {"settings": changes, "environment": dict(pick.environment), "affinity": list(pick.affinity)}


def search_grid(case: Case, grid: Grid) -> dict[str, Any]:
    """Return what a person finds who tries the settings of the grid by hand."""
    best = grid.search(GRID_ROUNDS if case.budget_seconds is None else GRID_ROUNDS[:1])
    return {
        "choice": choice_of(best, case.baseline, grid.readings),
        "in_vain": values_in_vain(grid.readings),
        "search_seconds": grid.spent_seconds,
        "planned_steps": case.planned_steps,
        "own_step_seconds": grid.baseline.step_seconds,
        "startup_seconds": grid.startup_seconds,
        "wait_share": grid.baseline.wait_share,
        "readings": msgspec.to_builtins(grid.readings),
    }


def search_by_optuna(case: Case, grid: Grid) -> dict[str, Any]:
    """Return what Optuna's default sampler finds, the user's own settings first, for as long as autoaccel may."""
    readings: list[PlainReading] = []

    def read(settings: Settings) -> Reading | None:
        found = read_plainly(case, Pick(settings, case.variables(settings)), "optuna")
        readings.append(found)
        return None if found.failure else (found.step_seconds, found.first_seconds)

    start = time.perf_counter()
    run = ProjectedRun(case.planned_steps, grid.startup_seconds, DEFAULT_TRAININGS)
    budget_seconds = case.budget_seconds or BUDGET_SECONDS
    sampler = optuna.samplers.TPESampler(seed=0)
    task = PeerTask(case.space, case.baseline, read, run, budget_seconds, time.perf_counter)
    best = search_with_optuna(task, sampler)
    return {
        "choice": choice_of(Pick(best), case.baseline, readings),
        "search_seconds": time.perf_counter() - start,
        "readings": msgspec.to_builtins(readings),
    }


def launch_by_run_cpu(case: Case) -> dict[str, Any]:
    """Return what torch.backends.xeon.run_cpu launches with, in the best of its modes."""
    readings: list[PlainReading] = []

    def read(pick: Pick) -> float | None:
        found = read_plainly(case, pick, "run_cpu")
        readings.append(found)
        return None if found.failure else found.step_seconds

    pick = pick_of_launcher(case.baseline, read)
    return {
        "choice": choice_of(pick, case.baseline),
        "search_seconds": pick.search_seconds,
        "readings": msgspec.to_builtins(readings),
    }
