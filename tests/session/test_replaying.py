"""Claims verified thousands of times on simulated pairs, where it is known which are true."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path
from typing import cast

import pytest

from autoaccel.launch.runner import Runner
from autoaccel.records.progress import ignore
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import Request
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison, Failure, Verification
from autoaccel.records.workload import TrainingFacts, Workload
from autoaccel.session.clock import Clock
from autoaccel.session.pairs import PairReading
from autoaccel.session.proof import Prover
from autoaccel.session.replaying import verify_claim
from autoaccel.session.run import Run
from autoaccel.session.run_folder import RunFolder
from autoaccel.session.turn_plan import TURNS
from autoaccel.statistics.comparison import PROCESS_DEVIATION, SHARED_DRIFT, verdict_of, with_drift

TURN_DEVIATION = 0.12  # of the log ratio of one turn, as recorded on two shared cores
AFFORDABLE_PAIRS = 16
TIMES = 1000


class SimulatedPairs:
    """Pairs that scatter from turn to turn and from process to process, until the budget is spent."""

    def __init__(self, log: float, generator: random.Random) -> None:
        self._log = log
        self._random = generator
        self.measured = 0

    def measure(self, settings: Settings, seed: int, steps: int | None) -> PairReading | Failure:
        if self.measured == AFFORDABLE_PAIRS:
            return Failure("hung", "the budget was spent")
        self.measured += 1
        log = self._random.gauss(self._log, PROCESS_DEVIATION)
        return PairReading(
            [(1.0, math.exp(-self._random.gauss(log, TURN_DEVIATION))) for _ in range(TURNS)], True, None
        )


@pytest.fixture
def run(tmp_path: Path) -> Run:
    request = Request(Workload("/m.py", "build", ""), math.inf, Constraint(0.01, False))
    return Run(request, RunFolder(tmp_path), cast("Runner", None), Clock(0.0), ignore)  # a pair that hangs has spent it


def claim_of(speedup: float, low: float, high: float) -> Comparison:
    return Comparison(speedup, low, high, verdict_of(low, high), 0.95, 5, 40)


def verified(
    run: Run, facts: TrainingFacts, claimed: Comparison, pairs: SimulatedPairs, rounds: int = 3
) -> Verification:
    found = verify_claim(claimed, {}, Prover(run, facts, pairs), rounds)
    assert isinstance(found, Verification)
    return found


def test_settings_that_do_nothing_never_uphold_a_claim(run: Run, facts: TrainingFacts) -> None:
    generator, false_claim = random.Random(1), claim_of(1.2, 1.1, 1.31)
    verdicts = Counter(verified(run, facts, false_claim, SimulatedPairs(0.0, generator)).verdict for _ in range(TIMES))
    assert verdicts["holds"] <= 0.002 * TIMES
    assert verdicts["does not hold"] >= 0.95 * TIMES


@pytest.mark.parametrize("speedup", [1.25, 1.5, 2.0])
def test_true_claims_hold_at_another_hour(run: Run, facts: TrainingFacts, speedup: float) -> None:
    generator, verdicts = random.Random(2), Counter[str]()
    while verdicts.total() < TIMES / 4:
        at_its_hour, now = (math.log(speedup) + generator.gauss(0, SHARED_DRIFT / math.sqrt(2)) for _ in range(2))
        proof = Prover(run, facts, SimulatedPairs(at_its_hour, generator)).prove({}, 1, None, least_speedup=1.02)
        if proof.outcome != "proven":
            continue
        assert proof.comparison is not None
        claimed = with_drift(proof.comparison, SHARED_DRIFT)
        verdicts[verified(run, facts, claimed, SimulatedPairs(now, generator)).verdict] += 1
    assert verdicts["holds"] >= 0.9 * verdicts.total()
    assert verdicts["does not hold"] <= 0.05 * verdicts.total()


def test_pairs_are_added_until_it_is_clear_or_the_budget_is_spent(run: Run, facts: TrainingFacts) -> None:
    generator = random.Random(3)
    clear, close = SimulatedPairs(0.6, generator), SimulatedPairs(0.03, generator)
    assert verified(run, facts, claim_of(1.8, 1.5, 2.1), clear, rounds=4).verdict == "holds"
    assert clear.measured == 4
    assert verified(run, facts, claim_of(1.04, 1.02, 1.06), close).verdict == "inconclusive"
    assert close.measured == AFFORDABLE_PAIRS


def test_a_budget_that_ends_before_two_pairs_is_inconclusive(run: Run, facts: TrainingFacts) -> None:
    """It was told as a failure of the user's training."""
    pairs = SimulatedPairs(0.6, random.Random(4))
    pairs.measured = AFFORDABLE_PAIRS - 1
    found = verified(run, facts, claim_of(1.8, 1.5, 2.1), pairs)
    assert (found.measured, found.verdict) == (None, "inconclusive")


def test_a_training_that_fails_is_told_as_such(run: Run, facts: TrainingFacts) -> None:
    class Failing(SimulatedPairs):
        def measure(self, settings: Settings, seed: int, steps: int | None) -> PairReading | Failure:
            return super().measure(settings, seed, steps) if self.measured < 4 else Failure("memory", "out of memory")

    failing = Failing(0.03, random.Random(5))
    found = verify_claim(claim_of(1.04, 1.02, 1.06), {}, Prover(run, facts, failing), 3)
    assert isinstance(found, Failure) and found.kind == "memory"
