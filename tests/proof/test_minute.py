"""A minute's tune of a small training: how often what is faster is proven in the half of it that the search leaves."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from autoaccel.bench.bench import Bench, FreshPair
from autoaccel.bench.rounding import UPDATE_STEPS
from autoaccel.proof.course import Proof
from autoaccel.proof.judging import MetricJudge
from autoaccel.proof.proof import Prover
from autoaccel.records.messages import Failure
from autoaccel.records.progress import ignore
from autoaccel.records.proof import TrainedPair
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import Request
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.workload import BuildFunction, TrainingFacts
from autoaccel.runs.clock import BudgetClock
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.search.instruments import Reading
from autoaccel.space.change import Change
from autoaccel.space.knobs import KnobContext, default_settings
from autoaccel.statistics.comparison import PAIR_SCATTER, PROCESS_DEVIATION
from autoaccel.statistics.deciding import rule_for
from autoaccel.statistics.turn_plan import plan_turns
from autoaccel.workers.starter import WorkerStarter
from tests.samples import reading_of

# As tunes of the digits' example with 60 s have measured them on two cores.
STEP_SECONDS, START_SECONDS, WARMUP_STEPS, PAIR_SECONDS = 0.033, 0.4, 7, 2.65
LEFT_SECONDS = 32.0  # when the proof begins
TIMES = 100


class Minute:
    """A machine on which the same takes now longer, now less, and a clock that only this moves."""

    budget_seconds = 60.0

    def __init__(self, speedup: float, slowness: float, seed: int) -> None:
        self.speedup = speedup
        self.slowness = slowness
        self.random = random.Random(seed)
        self.spent = self.budget_seconds - LEFT_SECONDS

    @property
    def left(self) -> float:
        return max(0.0, self.budget_seconds - self.spent)

    def take(self, seconds: float) -> bool:
        """Let so much time pass, about; return whether there was as much."""
        self.spent += seconds * self.slowness * math.exp(self.random.gauss(0.0, 0.15))
        return self.left > 0

    def compare(self, settings: Settings, how: FreshPair) -> Reading | Failure:
        both = STEP_SECONDS * (1 + 1 / self.speedup)
        if not self.take(PAIR_SECONDS if how.steps is None else 2 * START_SECONDS + 0.3 + how.steps * both):
            return Failure("hung", "the budget was spent")
        luck = math.log(self.speedup) + self.random.gauss(0.0, PAIR_SCATTER.deviation)
        turns = [(1.0, math.exp(-luck - self.random.gauss(0.0, 0.1))) for _ in range(8)]
        if how.steps is None:
            return reading_of(turns)
        baseline, loss = self.random.gauss(0.97, 0.004), self.random.gauss(0.3, 0.02)
        metrics = (baseline, baseline - self.random.gauss(0.0, 0.004))
        losses = (loss, loss + self.random.gauss(0.0, 0.002))
        return reading_of(turns, True, TrainedPair(metrics, losses, 2.3, sample_error=0.004))

    def compare_updates(self, settings: Settings, has_time: Callable[[int], bool]) -> RoundingEvidence | Failure:
        if not self.take(2 * START_SECONDS + UPDATE_STEPS * STEP_SECONDS * (1 + 1 / self.speedup)):
            return Failure("hung", "the budget was spent")
        return RoundingEvidence("holds", "", 10, 3, 3)


@pytest.mark.parametrize(("speedup", "slowness"), [(1.3, 1.0), (1.4, 1.0), (1.5, 1.0), (1.5, 1.4), (2.0, 1.4)])
def test_what_is_faster_is_mostly_proven_in_what_a_minute_leaves(
    speedup: float,
    slowness: float,
    tmp_path: Path,
    context: KnobContext,
    facts: TrainingFacts,
) -> None:
    """One of three tunes gave up before its first pair, with half of its minute left."""
    unchanged = default_settings(context)
    digits = msgspec.structs.replace(facts, epochs=10, steps_per_epoch=21, eval_samples=450)

    def proved(seed: int) -> Proof:
        minute = Minute(speedup, slowness, seed)
        request = Request(BuildFunction("/m.py", "build", ""), minute.budget_seconds, Constraint(0.01, True))
        run = TuningRun(request, RunFolder(tmp_path), cast("WorkerStarter", None), cast("BudgetClock", minute), ignore)
        baseline = SimpleNamespace(
            settings=unchanged,
            facts=digits,
            measurement=SimpleNamespace(warmup_step_seconds=(STEP_SECONDS * slowness,) * WARMUP_STEPS),
            step_seconds=STEP_SECONDS * slowness,
            ready_seconds=(START_SECONDS + WARMUP_STEPS * STEP_SECONDS) * slowness,
            pair_seconds=lambda speedup=1.0: PAIR_SECONDS * slowness,
            plan=plan_turns(STEP_SECONDS * slowness),
            compared_steps=frozenset(),
            compare_updates=minute.compare_updates,
        )
        space = SearchSpace("test", {}, {}, {})
        judge = MetricJudge(run, cast("Bench", baseline), lambda settings: 0.0)
        settings: Settings = {**unchanged, "precision.autocast": "bfloat16"}
        seen = speedup * math.exp(minute.random.gauss(0.0, PROCESS_DEVIATION))
        prover = Prover(minute.compare, digits, minute, ignore)
        return prover.prove(settings, rule_for(1, 1.02), judge.begin(Change(settings, unchanged, space), seen, 1))

    proofs = [proved(seed) for seed in range(TIMES)]
    results = Counter(proof.result for proof in proofs)
    assert results["proven"] >= 0.8 * TIMES, results
    assert all(proof.pairs for proof in proofs)  # something was measured
    assert all(proof.accuracy is not None for proof in proofs if proof.result == "proven")
