"""Whether anything grows: real trials of a tiny training beside its living baseline, and replayed ones.

    python -m benchmarks.checks.soak [--trials 600] [--replayed 10000]

One real trial in ten fails, in turn in each way in which a process can; one in ten leaves a daemon, a stopped child,
an open port, named shared memory and temporary files; one in ten prints 20 MB. What the tuner holds is read after the
first tenth and at the end: its memory may have grown by 20 MB at most; of descriptors, threads, processes, temporary
files and shared memory there may be no more. After the run nothing may be left. The replayed trials are those of
searches with proofs, one after the other, on the recorded tables. Adds no row; exits with 1 if anything has grown.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

from autoaccel.records.messages import Failure, GiveTurn
from autoaccel.records.settings import Settings
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KnobContext
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.starter import WorkerStarter
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import at_least
from benchmarks.harness.table import TABLES, read_table
from benchmarks.studies.tables.halves import Splits
from benchmarks.studies.tables.proofs import ReplayTask
from benchmarks.studies.tables.simulate import SHARE, autoaccel

MAX_GROWTH_BYTES = 20_000_000
_SECONDS = 120.0  # for a trial
_SHARED_MEMORY = Path("/dev/shm")

MODEL = """
import os, signal, socket, subprocess, sys, tempfile, time
from multiprocessing import shared_memory

import torch
from torch import nn
from torch.utils.data import TensorDataset

import autoaccel

STARTS = {starts!r}
INPUTS = torch.randn(72, 8)
TARGETS = (INPUTS.sum(dim=1) > 0).long()
FAILURES = (
    lambda: os._exit(0),
    lambda: sys.exit(3),
    lambda: os.abort(),
    lambda: os.kill(os.getpid(), signal.SIGKILL),
    lambda: 1 / 0,
)


def leave_things_behind():
    socket.create_server(("127.0.0.1", 0))
    shared_memory.SharedMemory(create=True, size=1 << 16)
    tempfile.mkdtemp()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", "600"]).send_signal(signal.SIGSTOP)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)


def build():
    with open(STARTS, "a") as file:
        number = file.tell()
        file.write("x")
    if number > 3 and number % 10 == 3:
        FAILURES[number // 10 % len(FAILURES)]()
    if number % 10 == 5:
        leave_things_behind()
    if number % 10 == 7:
        print("x" * 100 + "\\n" * 1000)
        os.write(1, b"x" * (20 << 20))
    data = TensorDataset(INPUTS, TARGETS)
    return autoaccel.Training(
        model=nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)),
        train_data=data, eval_data=data, batch_size=16, epochs=3, loss=nn.CrossEntropyLoss(),
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=1e-2), evaluate="accuracy",
        settings={{"threads.intra_op": 1}},
    )
"""


class Held(NamedTuple):
    """What the tuner holds at some moment."""

    bytes: int  # resident memory
    descriptors: int
    threads: int
    processes: int
    temporary: int  # files and folders among the workers' temporary ones
    shared: int  # pieces of named shared memory on this computer
    logs: int

    def growth(self, early: Held) -> list[str]:
        """Return what there is more of than there was early in the run."""
        found = [f"memory by {(self.bytes - early.bytes) / 1e6:.1f} MB"] * (self.bytes - early.bytes > MAX_GROWTH_BYTES)
        for name in ("descriptors", "threads", "processes", "temporary", "shared"):
            if (more := getattr(self, name) - getattr(early, name)) > 0:
                found.append(f"{name} by {more}")
        return found


def entries(folder: Path) -> int:
    """Return how many files and folders are below a folder."""
    return sum(1 for _ in folder.rglob("*")) if folder.is_dir() else 0


def held(starter: WorkerStarter | None = None, logs: Path | None = None) -> Held:
    """Return what this process holds now."""
    gc.collect()
    process = psutil.Process()
    temporary = starter._temporary.path if starter and starter._temporary else None
    if starter:  # what the last trial has left goes when the next one starts
        starter._ended.forget(starter._started, None)
    return Held(
        bytes=process.memory_info().rss,
        descriptors=process.num_fds(),
        threads=threading.active_count(),
        processes=len(process.children(recursive=True)),
        temporary=entries(temporary) if temporary else 0,
        shared=entries(_SHARED_MEMORY),
        logs=entries(logs) if logs else 0,
    )


def various(count: int) -> Iterator[Settings]:
    """Yield settings: the same few again and again, with loader workers and without."""
    few: list[Settings] = [
        {"threads.intra_op": 1},
        {"threads.intra_op": 1, "loader.workers": 1},
        {"threads.intra_op": 1, "optimizer.fused": True},
        {"threads.intra_op": 1, "loader.workers": 2, "precision.autocast": "bfloat16"},
    ]
    return itertools.islice(itertools.cycle(few), count)


def real_trials(count: int) -> list[str]:
    """Return what has grown over real trials, or is left after them."""
    with tempfile.TemporaryDirectory(prefix="soak-") as place:
        folder, model = Path(place, "run"), Path(place, "model.py")
        folder.mkdir()
        model.write_text(MODEL.format(starts=str(Path(place, "starts"))))
        before, failed, began = held(), 0, time.perf_counter()
        early: Held | None = None
        with WorkerStarter(folder, find_workload(str(model))) as starter:
            assert starter.workload is not None
            machine, facts = probe_and_describe(starter, starter.workload, _SECONDS)
            starter = starter.at(KnobContext(machine, facts))
            baseline = starter.start_measuring({"threads.intra_op": 1}, "baseline", _SECONDS)
            assert isinstance(baseline, Measuring), baseline
            for number, settings in enumerate(various(count), start=1):
                trial = starter.start_measuring(settings, f"trial-{number:04d}", _SECONDS)
                if isinstance(trial, Failure):
                    failed += 1
                else:
                    for side in (baseline, trial):
                        assert not isinstance(side.take_turn(GiveTurn(0.02), _SECONDS), Failure)
                    trial.close()
                baseline.turns.clear()
                if number == max(1, count // 10):
                    early = held(starter, folder / "logs")
                    print(f"after {number} trials: {early}", flush=True)
            late = held(starter, folder / "logs")
            baseline.close()
        assert early is not None
        after = held()
        seconds = time.perf_counter() - began
        print(f"after {count} trials, {failed} of which failed, {seconds:.0f} s: {late}", flush=True)
        print(f"before the run: {before}\nafter it: {after}", flush=True)
        left = after._replace(bytes=0).growth(before._replace(bytes=0))
        return [*late.growth(early), *(f"after the run, {one}" for one in left)]


def replayed_trials(count: int) -> list[str]:
    """Return what has grown over the trials of replayed searches."""
    tables = [Splits(read_table(path)) for path in sorted(TABLES.glob("*.jsonl.gz"))]
    began, made, seed = time.perf_counter(), 0, 0
    early: Held | None = None
    while made < count:
        table = tables[seed % len(tables)]
        _, facts = table.half(seed)
        planned = facts.table.head.facts.planned_steps
        history = autoaccel(ReplayTask(facts, planned, SHARE * facts.grid_seconds, seed))
        made, seed = made + max(1, len(history) - 1), seed + 1
        if early is None and made >= count / 10:
            early = held()
            print(f"after {made} replayed trials: {early}", flush=True)
    assert early is not None
    late = held()
    print(f"after {made} replayed trials of {seed} searches, {time.perf_counter() - began:.0f} s: {late}", flush=True)
    return late.growth(early)


def main() -> int:
    """Run both; return 1 if anything has grown."""
    parser = make_parser(__doc__)
    parser.add_argument("--trials", type=at_least(0), default=600, help="real ones; default %(default)s")
    parser.add_argument("--replayed", type=at_least(0), default=10_000, help="default %(default)s")
    parsed = parser.parse_args()
    grown = real_trials(parsed.trials) if parsed.trials else []
    grown += replayed_trials(parsed.replayed) if parsed.replayed else []
    for one in grown:
        print(f"grown: {one}")
    print("something has grown" if grown else f"nothing has grown (process {os.getpid()})")
    return bool(grown)


if __name__ == "__main__":
    sys.exit(main())
