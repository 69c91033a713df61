"""Settings against the baseline in fresh pairs of processes, as `autoaccel verify` measures them."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from autoaccel.bench.live_bench import LiveBench
from autoaccel.bench.pairs import FreshPairs
from autoaccel.bench.turns import TurnTaker
from autoaccel.proof.proof import Prover
from autoaccel.records.messages import Failure
from autoaccel.records.progress import ignore
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import Request
from autoaccel.records.settings import Settings
from autoaccel.runs.clock import BudgetClock
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.starter import WorkerStarter

START_SECONDS = 300.0


class Contest:
    """One workload, and the means to measure settings of it."""

    def __init__(self, run: TuningRun, context: KnobContext) -> None:
        """Measure the baseline."""
        assert context.training is not None
        self.run = run
        self.context = context
        self.baseline_settings = baseline_settings(context)
        self.baseline = LiveBench(run, context.training, self.baseline_settings)
        self.baseline.rest()
        taker = TurnTaker(self.baseline.plan, context.training.steps_per_epoch, [self.baseline.step_seconds])
        pairs = FreshPairs(run, self.baseline_settings, taker, self.baseline.is_apart, fresh=True)
        self._prover = Prover(pairs.compare, context.training, run.clock, run.tell)

    def compare(self, change: Settings, min_pairs: int) -> dict[str, Any]:
        """Return the speed-up of a change over the baseline, with its interval; or why there is none."""
        found = self._prover.measure(self.baseline_settings | change, min_pairs)
        assert found is not None  # for this there is no budget
        if isinstance(found, Failure):
            return {"failure": found.kind, "message": found.message}
        return {"speedup": found.speedup, "low": found.low, "high": found.high, "pairs": found.process_pairs}


@contextmanager
def contest(model: str) -> Iterator[Contest]:
    """Yield the contest for a workload's file."""
    workload = find_workload(model)
    with tempfile.TemporaryDirectory() as folder, WorkerStarter(Path(folder), workload) as starter:
        context = KnobContext(*probe_and_describe(starter, workload, START_SECONDS))
        starter = starter.at(context)
        request = Request(workload=workload, budget_seconds=math.inf, constraint=Constraint(0.0, True))
        yield Contest(TuningRun(request, RunFolder(Path(folder)), starter, BudgetClock(math.inf), ignore), context)


def machine_of(context: KnobContext) -> dict[str, Any]:
    """Return what a result should say of the machine."""
    found: dict[str, Any] = msgspec.to_builtins(context.machine.fingerprint)
    return {**found, "features": list(context.machine.cpu.features)}
