"""Four workers share one study, and one of them is killed in the middle of a trial: is anything lost, or run twice?

    python -m benchmarks.checks.sharing [--runs 5]

Once in PostgreSQL (a server of its own, from Debian's package), once in a journal file, and there once more with nobody
killed. The workers are processes that search as `autoaccel tune` does, each with a machine of its own that is replayed
from a table of readings: so that four do not disturb each other here, and the truth is known. Time passes 10 times as
fast. Results go to benchmarks/results/sharing.jsonl.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import optuna

from autoaccel.advise.bounds import OTHERS_SPEEDUP
from autoaccel.records.messages import Failure
from autoaccel.records.progress import ignore
from autoaccel.records.settings import Settings, settings_key
from autoaccel.records.trial import Trial
from autoaccel.report.conclusions import stop_words
from autoaccel.runs.sharing import proof_elsewhere, showing_life
from autoaccel.search.economy import Economy
from autoaccel.search.instruments import Instruments, QuickLook, Reading
from autoaccel.search.loop import Search
from autoaccel.search.storage import open_storage
from autoaccel.search.study import SearchStudy
from autoaccel.search.task import SearchTask, expect
from autoaccel.space.narrow import narrow
from autoaccel.statistics.comparison import NOISE_THRESHOLD
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.postgres import find_postgres, running_postgres
from benchmarks.harness.replay import Facts, Replay
from benchmarks.harness.rows import ROOT, add_row
from benchmarks.harness.table import CODE as TABLES_CODE
from benchmarks.harness.table import TABLES, read_table

CODE = (
    "autoaccel/search",
    "autoaccel/session",
    "autoaccel/proof",
    "autoaccel/bench",
    "autoaccel/runs",
    "benchmarks/checks/sharing.py",
    *TABLES_CODE,
)
TABLE = "digits_cnn"
PLANNED_STEPS = 50_000
TRAININGS = 1000  # that a saved second counts for, as in the other replayed searches
BUDGET_SECONDS = 900.0
FASTER = 10
BEAT_SECONDS, GRACE_SECONDS = 0.5, 15.0  # of real time; a worker that is killed may leave a journal locked for 10
PROOF_SECONDS = 2.0  # of real time, that the first worker stays after its search
WORKERS = 4
NOISE = 0.02


class FastClock:
    """Seconds pass faster than they do; to move it is to wait."""

    def __init__(self, budget_seconds: float) -> None:
        """Start now."""
        self.budget_seconds = budget_seconds
        self._start = time.monotonic()

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return FASTER * (time.monotonic() - self._start)

    @spent.setter
    def spent(self, seconds: float) -> None:
        time.sleep(max(0.0, (seconds - self.spent) / FASTER))

    @property
    def left(self) -> float:
        """Seconds until the budget is spent."""
        return max(0.0, self.budget_seconds - self.spent)


class DoomedSource(Replay):
    """Measures once, and then without end."""

    measured = False

    def compare(self, settings: Settings, look: QuickLook) -> Reading | Failure:
        """Measure as others do, but only once."""
        if self.measured:
            time.sleep(600)
        self.measured = True
        return super().compare(settings, look)


def search(facts: Facts, seed: int, study: SearchStudy | None, doomed: bool = False) -> tuple[Search, dict[str, Any]]:
    """Search as `autoaccel tune` does; return the search, and what came of it."""
    head, baseline = facts.table.head, facts.table.head.baseline
    clock = FastClock(BUDGET_SECONDS)
    economy = Economy(
        trainings=TRAININGS,
        planned_steps=PLANNED_STEPS,
        step_seconds=facts.baseline_step_seconds,
        startup_seconds=baseline.startup_seconds,
        compile_seconds=baseline.compile_seconds,
        trial_seconds=facts.trial_seconds,
    )
    space = narrow(head.space, head.baseline_settings, head.findings, 1 + NOISE_THRESHOLD / OTHERS_SPEEDUP)
    task = SearchTask(
        space, head.baseline_settings, economy, expect(space, facts.context, head.baseline_settings, head.findings)
    )
    source = (DoomedSource if doomed else Replay)(facts, clock, random.Random(seed))  # type: ignore[arg-type]  # in place of a simulated clock: it waits
    held: list[tuple[float, Settings]] = [(0.0, head.baseline_settings)]

    def keep(trial: Trial) -> None:
        best = one.best.settings if one.best else head.baseline_settings
        if best != held[-1][1]:
            held.append((clock.spent, best))

    one = Search(task, Instruments(source.compare, clock, keep, ignore), study)
    stop = one.run(lambda settings, speedup: 0.0)
    best = one.best.settings if one.best else head.baseline_settings
    everything = [facts.total_seconds(facts.settings[key], PLANNED_STEPS) for key in facts.log_speedup]
    return one, {
        "ended": stop_words(stop, len(one.trials)),
        "best": settings_key(best),
        "regret": facts.total_seconds(best, PLANNED_STEPS) / min(everything) - 1,
        "seconds": clock.spent,
        "seconds_to_best": held[-1][0],
        "trials": Counter(settings_key(trial.settings) for trial in one.trials),
        "own": Counter(settings_key(trial.settings) for trial in one.trials if not trial.host),
    }


def work(storage: str, name: str, number: int, seed: int, doomed: bool, out: Path) -> None:
    """Be one of the workers."""
    facts = Facts(read_table(TABLES / f"{TABLE}.jsonl.gz"))
    study = SearchStudy(open_storage(storage), name, f"machine-{number}", GRACE_SECONDS)
    with showing_life(study, BEAT_SECONDS):
        one, found = search(facts, seed, study, doomed)
        proves = proof_elsewhere(study, one.best.settings if one.best else None) is None
        if proves and one.best:
            time.sleep(PROOF_SECONDS)
            study.peers.show_judged(one.best.settings)
        out.write_text(json.dumps({**found, "proves": proves}))


class Claims:
    """What the storage says, read without autoaccel's own view of it."""

    def __init__(self, storage: str, name: str) -> None:
        """Open the study as Optuna does."""
        self._study = optuna.create_study(storage=open_storage(storage), study_name=name, load_if_exists=True)

    def of(self, worker: str | None = None) -> list[optuna.trial.FrozenTrial]:
        """Return the claims of all workers, or of one."""
        claims = [trial for trial in self._study.get_trials(deepcopy=False) if "settings" in trial.user_attrs]
        return [claim for claim in claims if worker is None or f" {worker} " in claim.user_attrs["worker"]]


def identity(claim: optuna.trial.FrozenTrial) -> tuple[str, int]:
    """Return what nobody else may measure."""
    return settings_key(claim.user_attrs["settings"]), claim.user_attrs["reading"]


def share(storage: str, name: str, seed: int, kill: bool) -> dict[str, Any]:
    """Let four workers search and kill one in the middle of its second trial; return what became of it all."""
    claims, victim = Claims(storage, name), f"machine-{WORKERS - 1}"
    with tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder) / f"{number}.json" for number in range(WORKERS)]
        workers = []
        for number, out in enumerate(outs):
            doomed = kill and number == WORKERS - 1
            arguments = [storage, name, str(number), str(WORKERS * seed + number), "doomed" if doomed else "", str(out)]
            command = [sys.executable, "-m", "benchmarks.checks.sharing", "--work", *arguments]
            workers.append(subprocess.Popen(command, cwd=ROOT))
        if kill:
            before: list[int] = []
            while True:
                running = [claim.number for claim in claims.of(victim) if not claim.state.is_finished()]
                measured = any("trial" in claim.user_attrs for claim in claims.of(victim))
                if measured and running and running == before:  # it was there a second ago: no duplicate
                    break
                before = running
                time.sleep(1.0)
            workers.pop().send_signal(signal.SIGKILL)
            outs.pop()
        codes = [worker.wait() for worker in workers]
        assert not any(codes), codes
        found = [json.loads(out.read_text()) for out in outs]
    done = [claim for claim in claims.of() if "trial" in claim.user_attrs]
    times = Counter(identity(claim) for claim in done)
    silent = [claim for claim in claims.of() if claim.user_attrs.get("given up") == "silent"]
    known = Counter(settings_key(claim.user_attrs["settings"]) for claim in done)
    return {
        "trials": len(done),
        "by_worker": [len([claim for claim in done if claim in claims.of(f"machine-{n}")]) for n in range(WORKERS)],
        "given_up_as_duplicates": sum(claim.user_attrs.get("given up") == "duplicate" for claim in claims.of()),
        "run_twice": sum(count - 1 for count in times.values()),
        "interrupted_by_the_kill": len(silent),
        # Once at least: whether settings are worth a second reading each worker decides anew.
        "of_these_measured_by_others": sum(identity(claim)[0] in known for claim in silent),
        "still_running": sum(not claim.state.is_finished() for claim in claims.of()),
        "unknown_to_a_survivor": sum((known - Counter(one["trials"])).total() for one in found),
        "missing_in_the_study": sum((Counter(one["own"]) - known).total() for one in found),
        "provers": sum(one["proves"] for one in found),
        "regret": statistics.median(one["regret"] for one in found),
        "bests": sorted({one["best"] for one in found}),
        "seconds": max(one["seconds"] for one in found),
        "seconds_to_best": max(one["seconds_to_best"] for one in found),
    }


def main() -> None:
    """Share in both storages; write what came of it."""
    parser = make_parser(__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--work", nargs=6, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.work:
        storage, name, number, seed, doomed, out = parsed.work
        work(storage, name, int(number), int(seed), bool(doomed), Path(out))
        return
    programs = find_postgres()
    if programs is None:
        sys.exit("PostgreSQL is not installed: apt install postgresql")
    facts = Facts(read_table(TABLES / f"{TABLE}.jsonl.gz"))
    alone = [search(facts, seed, None)[1] for seed in range(parsed.runs)]
    print(f"one worker: {[round(one['seconds']) for one in alone]} s, regret {[one['regret'] for one in alone]}")
    shared: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder, running_postgres(programs) as url:
        journal, unharmed = (str(Path(folder) / name) for name in ("study.journal", "unharmed.journal"))
        for kind, storage in (("postgresql", url), ("journal", journal), ("nobody_killed", unharmed)):
            shared[kind] = []
            for seed in range(parsed.runs):
                row = share(storage, f"check-{seed}", seed, kill=kind != "nobody_killed")
                shared[kind].append(row)
                print(f"{kind} {seed}: {row}")
    regret_alone = statistics.median(one["regret"] for one in alone)
    summary = {
        kind: {
            "studies": len(rows),
            "trials": sum(row["trials"] for row in rows),
            "killed_in_a_trial": sum(row["interrupted_by_the_kill"] for row in rows),
            "run_twice": sum(row["run_twice"] for row in rows),
            "lost": sum(
                row["interrupted_by_the_kill"] - row["of_these_measured_by_others"]
                + row["still_running"] + row["unknown_to_a_survivor"] + row["missing_in_the_study"]
                for row in rows
            ),
            "provers": sorted({row["provers"] for row in rows}),
            "median_regret": statistics.median(row["regret"] for row in rows),
            "median_seconds": statistics.median(row["seconds"] for row in rows),
            "median_seconds_to_best": statistics.median(row["seconds_to_best"] for row in rows),
        }
        for kind, rows in shared.items()
    }  # fmt: skip
    one_worker = {
        "median_regret": regret_alone,
        "median_seconds": statistics.median(one["seconds"] for one in alone),
        "median_seconds_to_best": statistics.median(one["seconds_to_best"] for one in alone),
        "median_trials": statistics.median(sum(one["trials"].values()) for one in alone),
    }
    holds = all(
        row["run_twice"] == row["lost"] == 0
        and row["killed_in_a_trial"] == (0 if kind == "nobody_killed" else row["studies"])
        and row["provers"] == [1]
        and math.isclose(1 + row["median_regret"], 1 + regret_alone, rel_tol=NOISE)
        for kind, row in summary.items()
    )
    found = {"table": TABLE, "workers": WORKERS, "one_worker": one_worker, **summary, "holds": holds, "runs": shared}
    add_row("sharing", "all", found, code=CODE)
    print(json.dumps({"one_worker": one_worker, **summary, "holds": holds}, indent=2))
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
