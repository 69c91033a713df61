"""What each contender would train an unseen workload with, and what it took to find out.

autoaccel is run as a user types it. All others measure with plain.py: one fresh process after the other, a few steps
each, and a clock. They minimise what they are scored by, the projected time of the whole planned run, on average over
the 20 of which only the first compiles.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from peers import ProjectedRun, Reading, search_with_optuna
from side_by_side import Pick, kept, launched_like, pick_of_launcher
from suite import WAITS, hand_grid

from autoaccel.records.base import Record, decode, encode
from autoaccel.records.request import DEFAULT_RUNS
from autoaccel.records.settings import Settings, changed, describe_change, settings_key
from autoaccel.records.space import SearchSpace

ROOT = Path(__file__).parents[2]
PLAIN = Path(__file__).with_name("plain.py")
BUDGET_SECONDS = 600.0  # autoaccel's default, and what Optuna gets
TIMEOUT_SECONDS = 600.0  # for a process; nobody waits longer for steps to begin
READING_SECONDS, READING_STEPS = 2.0, 3  # of a plain reading at least: of long steps few
GRID_ROUNDS = 2  # over all settings,
FINALISTS, FINAL_ROUNDS = 4, 2  # then over the best


@dataclass(frozen=True)
class Case:
    """One workload on this machine."""

    name: str
    path: Path
    own: Settings
    space: SearchSpace
    """What Optuna searches, and the hand grid is drawn from."""
    planned_steps: int
    steps_per_epoch: int
    folder: Path
    """Of what all of the tuner's code decides on."""
    peers: Path
    """Of what only the peers' code and what brings settings to bear decide on."""
    budget_seconds: float | None
    """For each search; None: autoaccel's is not told any."""


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
    changes = changed(pick.settings, case.own)
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(case.peers / f"compiled-{who}")}
    command = [sys.executable, str(PLAIN), str(case.path), json.dumps(changes)]
    command += ["--seconds", str(READING_SECONDS), "--steps", str(READING_STEPS)]
    start = time.perf_counter()
    with launched_like(Pick(pick.settings, {**pick.environment, **cache}, pick.affinity)):
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
    try:
        printed, said = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        printed, said = "", f"not ready after {TIMEOUT_SECONDS:.0f} s"
    except BaseException:
        _kill(process)
        raise
    _kill(process)  # what it started and left behind, too
    spent = time.perf_counter() - start
    if process.returncode or not printed.strip():
        reason = (said.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
        return PlainReading(number, changes, failure=reason, spent_seconds=spent, date=date)
    found = json.loads(printed.strip().splitlines()[-1])
    # Loader workers deliver in bursts: most steps wait for nothing, and one for all.
    middle = statistics.fmean if pick.settings["loader.workers"] else statistics.median
    return PlainReading(
        number,
        changes,
        step_seconds=middle(found["step_seconds"]),
        first_seconds=found["first_seconds"],
        startup_seconds=spent - found["made_seconds"],
        wait_share=found["wait_share"],
        spent_seconds=spent,
        date=date,
    )


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # nothing is left of it
    process.wait()


def _tell(case: Case, who: str, settings: Settings, reading: PlainReading) -> None:
    said = reading.failure or f"{reading.step_seconds:.3f} s a step"
    print(f"{case.name} {who}: {describe_change(settings, case.own)}: {said}", flush=True)


class Grid:
    """The hand grid of a workload: readings, kept one by one, so that whoever goes on repeats none."""

    def __init__(self, case: Case) -> None:
        """Take up what was read before."""
        self._case = case
        self._path = case.peers / "grid.jsonl"
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        self.readings = [decode(line, PlainReading) for line in lines]
        self.own = self._read(0, case.own)
        """Of the user's own settings, the first."""

    def _read(self, number: int, settings: Settings) -> PlainReading:
        """Return a reading of these settings, taken now or before."""
        changes = changed(settings, self._case.own)
        for reading in self.readings:
            if (reading.round, reading.settings) == (number, changes):
                return reading
        reading = read_plainly(self._case, Pick(settings), "grid", number)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(encode(reading) + b"\n")
        self.readings.append(reading)
        _tell(self._case, f"by hand, round {number}", settings, reading)
        return reading

    @property
    def startup_seconds(self) -> float:
        """Median over all readings; compilation is not in it."""
        return statistics.median(reading.startup_seconds for reading in self.readings if not reading.failure)

    def ranked(self, among: Sequence[Settings]) -> list[Settings]:
        """Return those of the settings that worked, by the projected time of the planned run, the shortest first."""
        run = ProjectedRun(self._case.planned_steps, self.startup_seconds, DEFAULT_RUNS)
        seconds: dict[str, list[float]] = {}
        for reading in self.readings:
            if not reading.failure:
                settings = {**self._case.own, **reading.settings}
                projected = run.seconds(settings, (reading.step_seconds, reading.first_seconds))
                seconds.setdefault(settings_key(settings), []).append(projected)
        worked = [settings for settings in among if settings_key(settings) in seconds]
        return sorted(worked, key=lambda settings: statistics.median(seconds[settings_key(settings)]))

    def search(self, rounds: int = GRID_ROUNDS, final_rounds: int = FINAL_ROUNDS) -> Pick:
        """Return the best of the grid: read so often over all settings, and then over the best of them."""
        waits = self.own.wait_share >= WAITS
        settings = hand_grid(self._case.own, self._case.space.open, waits)
        for number in range(1, rounds + final_rounds + 1):
            if number == rounds + 1:
                settings = self.ranked(settings)[:FINALISTS]
            for one in random.Random(f"{self._case.name} {number}").sample(settings, len(settings)):
                self._read(number, one)
        spent = sum(reading.spent_seconds for reading in self.readings)
        return Pick(self.ranked(settings)[0], search_seconds=spent)


def pick_of_optuna(case: Case, startup_seconds: float) -> Pick:
    """Search with Optuna's default sampler, the user's own settings first, for as long as autoaccel may."""
    start = time.perf_counter()

    def read(settings: Settings) -> Reading | None:
        found = read_plainly(case, Pick(settings), "optuna")
        _tell(case, "by Optuna", settings, found)
        return None if found.failure else (found.step_seconds, found.first_seconds)

    run = ProjectedRun(case.planned_steps, startup_seconds, DEFAULT_RUNS)
    budget_seconds = case.budget_seconds or BUDGET_SECONDS
    sampler = optuna.samplers.TPESampler(seed=0)
    best = search_with_optuna(case.space, case.own, read, run, budget_seconds, time.perf_counter, sampler)
    return Pick(best, search_seconds=time.perf_counter() - start)


def peers_picks(case: Case, grid: Grid) -> dict[str, Pick]:
    """Return what a person and a peer would train with who have to search, and what a launcher chooses."""

    def read(pick: Pick) -> float | None:
        found = read_plainly(case, pick, "run_cpu")
        return None if found.failure else found.step_seconds

    tried = case.budget_seconds is not None
    return {
        "grid's best": grid.search(1, 0) if tried else grid.search(),
        "optuna": kept(case.peers / "optuna.json", lambda: pick_of_optuna(case, grid.startup_seconds)),
        "run_cpu": kept(case.peers / "run_cpu.json", lambda: pick_of_launcher(case.own, read)),
    }


def tune(case: Case) -> dict[str, Any]:
    """Tune as a user does; return what came of it. A tune that has ended is not repeated."""
    kept_at, output = case.folder / "tune.json", case.folder / "autoaccel"
    if kept_at.exists():
        found: dict[str, Any] = json.loads(kept_at.read_text())
        return found
    shutil.rmtree(output, ignore_errors=True)  # of one that was interrupted
    command = [sys.executable, "-m", "autoaccel", "tune", str(case.path.relative_to(ROOT)), "--output", str(output)]
    if case.budget_seconds is not None:
        command += ["--budget", f"{case.budget_seconds:.0f}s"]
    print("$ autoaccel", *command[3:], flush=True)
    start, said = time.perf_counter(), ""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None  # it is a pipe
        for line in process.stdout:
            print(line, end="", flush=True)
            words = line.strip()
            # An error says what it is first, and then where it was.
            said = said if said.startswith("autoaccel:") else words or said
    found = {"exit_code": process.returncode, "wall_seconds": time.perf_counter() - start, "said": said}
    if (output / "recipe.json").exists():
        recipe = json.loads((output / "recipe.json").read_text())
        recipe["search"].pop("values", None)  # long, and told by the trials
        found |= {name: recipe[name] for name in ("summary", "settings", "comparison", "accuracy", "search")}
    kept_at.parent.mkdir(parents=True, exist_ok=True)
    kept_at.write_text(json.dumps(found))
    return found


def pick_of_autoaccel(case: Case, tuned: dict[str, Any]) -> Pick:
    """Return what a user trains with after a tune: the recipe, or what they had."""
    seconds = tuned.get("search", {}).get("spent_seconds", tuned["wall_seconds"])
    return Pick({**case.own, **tuned.get("settings", {})}, search_seconds=seconds)
