"""Claims verified thousands of times on simulated pairs, where it is known which are true."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable

import pytest

from autoaccel.bench.bench import FreshPair
from autoaccel.commands.verifying import verify_claim
from autoaccel.proof.proof import Prover
from autoaccel.records.check import Verification
from autoaccel.records.messages import Failure
from autoaccel.records.progress import ignore
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison
from autoaccel.records.workload import TrainingFacts
from autoaccel.search.instruments import Reading
from autoaccel.statistics.comparison import PROCESS_DEVIATION, SHARED_DRIFT, verdict_of
from autoaccel.statistics.deciding import rule_for
from autoaccel.statistics.turn_plan import TURNS
from tests.samples import reading_of

TURN_DEVIATION = 0.12  # of the log ratio of one turn, as recorded on two shared cores
AFFORDABLE_PAIRS = 16
TIMES = 1000


class SimulatedPairs:
    """Pairs that scatter from turn to turn and from process to process, until the budget is spent."""

    def __init__(self, log: float, generator: random.Random) -> None:
        self._log = log
        self._random = generator
        self.measured = 0

    def compare(self, settings: Settings, how: FreshPair) -> Reading | Failure:
        if self.measured == AFFORDABLE_PAIRS:
            return Failure("hung", "the budget was spent")
        self.measured += 1
        log = self._random.gauss(self._log, PROCESS_DEVIATION)
        return reading_of([(1.0, math.exp(-self._random.gauss(log, TURN_DEVIATION))) for _ in range(TURNS)])


ProverOf = Callable[[SimulatedPairs], Prover]


class Spent:
    """A clock whose budget is spent: a pair that hangs has spent it."""

    left = 0.0
    spent = 0.0


@pytest.fixture
def prover_of(facts: TrainingFacts) -> ProverOf:
    """Return what makes a prover of simulated pairs."""
    return lambda pairs: Prover(pairs.compare, facts, Spent(), ignore)


def claim_of(speedup: float, low: float, high: float) -> Comparison:
    return Comparison(speedup, low, high, verdict_of(low, high), 0.95, 5, 40)


def verified(claimed: Comparison, prover: Prover, min_pairs: int = 3) -> Verification:
    found = verify_claim(claimed, {}, prover, min_pairs)
    assert isinstance(found, Verification)
    return found


def test_settings_that_do_nothing_never_uphold_a_claim(prover_of: ProverOf) -> None:
    generator, false_claim = random.Random(1), claim_of(1.2, 1.1, 1.31)
    verdicts = Counter(verified(false_claim, prover_of(SimulatedPairs(0.0, generator))).verdict for _ in range(TIMES))
    assert verdicts["holds"] <= 0.002 * TIMES
    assert verdicts["does not hold"] >= 0.95 * TIMES


@pytest.mark.parametrize("speedup", [1.25, 1.5, 2.0])
def test_true_claims_hold_at_another_hour(prover_of: ProverOf, speedup: float) -> None:
    generator, verdicts = random.Random(2), Counter[str]()
    while verdicts.total() < TIMES / 4:
        at_its_hour, now = (math.log(speedup) + generator.gauss(0, SHARED_DRIFT / math.sqrt(2)) for _ in range(2))
        proof = prover_of(SimulatedPairs(at_its_hour, generator)).prove({}, rule_for(1, 1.02, drift=SHARED_DRIFT), None)
        if proof.result != "proven":
            continue
        assert proof.comparison is not None
        verdicts[verified(proof.comparison, prover_of(SimulatedPairs(now, generator))).verdict] += 1
    assert verdicts["holds"] >= 0.9 * verdicts.total()
    assert verdicts["does not hold"] <= 0.05 * verdicts.total()


def test_pairs_are_added_until_it_is_clear_or_the_budget_is_spent(prover_of: ProverOf) -> None:
    generator = random.Random(3)
    clear, close = SimulatedPairs(0.6, generator), SimulatedPairs(0.03, generator)
    assert verified(claim_of(1.8, 1.5, 2.1), prover_of(clear), min_pairs=4).verdict == "holds"
    assert clear.measured == 4
    assert verified(claim_of(1.04, 1.02, 1.06), prover_of(close)).verdict == "inconclusive"
    assert close.measured == AFFORDABLE_PAIRS


def test_a_budget_that_ends_before_two_pairs_is_inconclusive(prover_of: ProverOf) -> None:
    """It was told as a failure of the user's training."""
    pairs = SimulatedPairs(0.6, random.Random(4))
    pairs.measured = AFFORDABLE_PAIRS - 1
    found = verified(claim_of(1.8, 1.5, 2.1), prover_of(pairs))
    assert (found.measured, found.verdict) == (None, "inconclusive")


def test_a_training_that_fails_is_told_as_such(prover_of: ProverOf) -> None:
    class Failing(SimulatedPairs):
        def compare(self, settings: Settings, how: FreshPair) -> Reading | Failure:
            return super().compare(settings, how) if self.measured < 4 else Failure("memory", "out of memory")

    failing = Failing(0.03, random.Random(5))
    found = verify_claim(claim_of(1.04, 1.02, 1.06), {}, prover_of(failing), 3)
    assert isinstance(found, Failure) and found.kind == "memory"
