"""Which evidence fits, and how often simulated settings of known harm are accepted on it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from autoaccel.bench.rounding import UPDATE_STEPS
from autoaccel.proof.evidence import choose_evidence
from autoaccel.proof.limits import MIN_SHARE
from autoaccel.proof.metric import MetricProof
from autoaccel.records.evidence import MetricPlan, TrainingCosts
from autoaccel.records.options import TuneOptions
from autoaccel.records.proof import TrainedPair
from autoaccel.records.recipe import Constraint
from autoaccel.records.workload import TrainingFacts
from autoaccel.report.conclusions import obstacle_words, plan_words

ALLOWED = 0.01
CONSTRAINT = Constraint(ALLOWED, False)
ERROR = 0.05  # that one contender may make
TIMES = 200

HOUR_LONG = TrainingCosts(planned_steps=4000, step_seconds=1.6)
THREE_PAIRS = TuneOptions(metric_repeats=3)
ONLY_PLANNED_RUNS = TuneOptions(metric_repeats=3, evidence="whole")
SHORT = TrainingCosts(planned_steps=200, step_seconds=0.05, start_seconds=2.0)


def test_the_strongest_evidence_that_fits_is_chosen() -> None:
    # A pair of planned runs takes 4 s to start and 15 s to train at twice the speed.
    assert SHORT.pair_seconds(200, 2.0) == pytest.approx(19.0)
    assert choose_evidence(SHORT, 2.0, 58.0, THREE_PAIRS) == MetricPlan("whole", 200, 3, 3)
    assert choose_evidence(SHORT, 2.0, 100.0, THREE_PAIRS) == MetricPlan("whole", 200, 3, 5)
    assert choose_evidence(SHORT, 2.0, 10_000.0, THREE_PAIRS) == MetricPlan("whole", 200, 3, 6)
    found = choose_evidence(SHORT, 2.0, 42.0, THREE_PAIRS)
    assert found == MetricPlan("share", 133, 3, 3)  # 14 s a pair, 10 of them for steps of 75 ms on both sides
    assert 3 * SHORT.pair_seconds(found.steps, 2.0) <= 42.0


def test_a_part_that_is_too_small_is_no_evidence() -> None:
    enough = 3 * HOUR_LONG.pair_seconds(round(MIN_SHARE * 4000), 1.0)
    assert choose_evidence(HOUR_LONG, 1.0, enough + 1, THREE_PAIRS).fits
    small = choose_evidence(HOUR_LONG, 1.0, enough - 10, THREE_PAIRS)
    assert not small.fits and small.steps == MIN_SHARE * 4000  # what would do


def test_where_no_planned_runs_fit_updates_are_compared_if_numbers_are_only_rounded() -> None:
    def chosen(seconds: float) -> MetricPlan:
        return choose_evidence(HOUR_LONG, 1.0, seconds, THREE_PAIRS, only_rounds=True)

    least = UPDATE_STEPS * 3.2  # a step under the user's own settings and one under others
    assert chosen(least + 1) == chosen(600.0) == MetricPlan("rounding", UPDATE_STEPS, 1, 1)  # more would tell no more
    assert chosen(least + 1).seconds(HOUR_LONG) == pytest.approx(least)
    too_short = chosen(least - 1)
    assert not too_short.fits and too_short.steps == UPDATE_STEPS  # what would do
    assert f"two runs of {UPDATE_STEPS} steps" in plan_words(too_short)
    planned = 3 * HOUR_LONG.pair_seconds(4000, 1.0)
    assert chosen(planned - 10).evidence == "rounding"  # a part of the runs rarely decides what updates do
    assert chosen(planned + 1).evidence == "whole"


def test_whoever_insists_on_planned_runs_gets_them_or_nothing() -> None:
    assert choose_evidence(SHORT, 2.0, 58.0, ONLY_PLANNED_RUNS).fits
    refused = choose_evidence(SHORT, 2.0, 42.0, ONLY_PLANNED_RUNS, only_rounds=True)
    assert (refused.evidence, refused.steps, refused.fits) == ("whole", 200, False)


class Simulated:
    """Pairs of runs whose metrics scatter from seed to seed, by what their samples let expect or by more."""

    def __init__(
        self,
        drop: float,
        generator: random.Random,
        scatter: float = 0.004,
        sample_error: float | None = None,
        rise: float | None = None,
    ) -> None:
        self.drop = drop
        self.random = generator
        self.scatter = scatter
        self.sample_error = sample_error
        self.rise = rise  # of the training's loss, as a part of its fall

    def pair(self) -> TrainedPair:
        baseline = self.random.gauss(0.9, 0.02)
        metrics = (baseline, baseline - self.drop - self.random.gauss(0, self.scatter))
        if self.rise is None:
            return TrainedPair(metrics, sample_error=self.sample_error)
        loss = self.random.gauss(0.5, 0.05)
        losses = (loss, loss + 2.0 * (self.rise + self.random.gauss(0, 0.002)))
        return TrainedPair(metrics, losses, 2.5, self.sample_error)


def status(facts: TrainingFacts, plan: MetricPlan, simulated: Simulated) -> str:
    """Return what a proof comes to that goes on until it is clear, or given up."""
    proof = MetricProof(facts, CONSTRAINT, plan, ERROR)
    while proof.status == "open":
        if (verdict := proof.given_up(plan.max_pairs - proof.trained)) is not None:
            return verdict
        proof.add(simulated.pair())
    return proof.status


def statuses(facts: TrainingFacts, plan: MetricPlan, make: Callable[[random.Random], Simulated]) -> Counter[str]:
    """Return how often each comes out of many proofs."""
    generator = random.Random(plan.max_pairs)
    return Counter(status(facts, plan, make(generator)) for _ in range(TIMES))


WHOLE, SHARE = MetricPlan("whole", 200, 3, 6), MetricPlan("share", 40, 3, 3)


@pytest.fixture
def many_samples(facts: TrainingFacts) -> TrainingFacts:
    return msgspec.structs.replace(facts, eval_samples=10_000)


@pytest.mark.parametrize(
    ("plan", "scatter", "sample_error"),
    [
        (WHOLE, 0.004, None),
        (WHOLE, 0.004, 0.004),
        (WHOLE, 0.008, 0.004),  # runs are twice as different as their samples let expect
        (WHOLE, 0.004, 0.012),
        (WHOLE, 0.03, None),  # hopeless
        (WHOLE, 0.03, 0.03),
    ],
)
def test_settings_that_drop_by_twice_what_is_allowed_are_hardly_ever_accepted(
    many_samples: TrainingFacts, plan: MetricPlan, scatter: float, sample_error: float | None
) -> None:
    found = statuses(many_samples, plan, lambda chance: Simulated(2 * ALLOWED, chance, scatter, sample_error))
    assert found["holds"] <= 0.05 * TIMES
    just = statuses(many_samples, plan, lambda chance: Simulated(ALLOWED, chance, scatter, sample_error))
    assert just["holds"] <= 0.08 * TIMES  # as often as the error allows, and three standard errors of so many tries


def test_settings_that_drop_by_twice_what_is_allowed_are_told_from_a_part_of_the_run(
    many_samples: TrainingFacts,
) -> None:
    by_both = statuses(many_samples, SHARE, lambda chance: Simulated(2 * ALLOWED, chance, 0.003, 0.003, 2 * ALLOWED))
    # Early in a run a metric may not have moved yet, and is the same however badly the training goes.
    by_loss = statuses(many_samples, SHARE, lambda chance: Simulated(0.0, chance, 0.001, 0.001, 2 * ALLOWED))
    by_metric = statuses(many_samples, SHARE, lambda chance: Simulated(2 * ALLOWED, chance, 0.003, 0.003, 0.0))
    assert max(found["holds"] for found in (by_both, by_loss, by_metric)) <= 0.05 * TIMES


@pytest.mark.parametrize(
    ("plan", "scatter", "sample_error", "rise"),
    [
        (WHOLE, 0.003, None, None),
        (WHOLE, 0.004, 0.004, None),
        (WHOLE, 0.004, 0.008, None),
        (WHOLE, 0.005, 0.003, None),
        (SHARE, 0.003, 0.003, 0.0),
        (SHARE, 0.001, None, 0.0),
    ],
)
def test_harmless_settings_are_accepted_where_the_runs_that_fit_suffice(
    many_samples: TrainingFacts, plan: MetricPlan, scatter: float, sample_error: float | None, rise: float | None
) -> None:
    found = statuses(many_samples, plan, lambda chance: Simulated(0.0, chance, scatter, sample_error, rise))
    assert found["holds"] >= 0.8 * TIMES


def test_what_cannot_become_clear_is_given_up_at_once_and_says_what_would_do(many_samples: TrainingFacts) -> None:
    """Seeds were added until the budget was gone, where a rival could have been proven."""
    proof = MetricProof(many_samples, CONSTRAINT, WHOLE, ERROR)
    for metrics in ((0.92, 0.86), (0.90, 0.85), (0.95, 0.87)):
        proof.add(TrainedPair(metrics))
    assert proof.given_up(3) == "drops"
    proof = MetricProof(many_samples, CONSTRAINT, WHOLE, ERROR)
    for metrics in ((0.90, 0.93), (0.94, 0.90)):
        proof.add(TrainedPair(metrics))
    assert (proof.status, proof.given_up(4)) == ("open", "unclear")
    words = obstacle_words(proof.missing(pair_seconds=36.0))
    assert words.startswith(
        "under your own settings the metric varies by 0.028 between seeds: to show that the drop is below 0.01 takes "
        "about "
    )


def test_a_metric_of_chance_is_unclear_though_it_happens_to_be_lower(many_samples: TrainingFacts) -> None:
    """Of 128 samples one more was wrong: all that casts to bfloat16 was ruled out as if it had harmed the metric."""
    proof = MetricProof(many_samples, CONSTRAINT, WHOLE, ERROR)
    for metrics in ((0.53, 0.46), (0.47, 0.50)):
        proof.add(TrainedPair(metrics))
    assert proof.accuracy is not None and proof.accuracy.drop is not None
    assert proof.accuracy.drop > CONSTRAINT.max_drop
    assert proof.given_up(4) == "unclear"


def test_time_that_runs_out_makes_it_hopeless(many_samples: TrainingFacts) -> None:
    proof = MetricProof(many_samples, CONSTRAINT, WHOLE, ERROR)
    for metrics in ((0.90, 0.905), (0.91, 0.901)):
        proof.add(TrainedPair(metrics))
    assert proof.given_up(4) is None
    assert proof.given_up(0) == "unclear"


def test_evidence_is_named_by_what_was_trained(many_samples: TrainingFacts) -> None:
    for plan, share in ((WHOLE, 1.0), (SHARE, 0.2)):
        proof = MetricProof(many_samples, CONSTRAINT, plan, ERROR)
        for _ in range(3):
            proof.add(TrainedPair((0.9, 0.9), (0.5, 0.5), 2.5, 0.001))
        assert proof.accuracy is not None
        assert (proof.accuracy.evidence, proof.accuracy.share) == (plan.evidence, share)
        assert (proof.accuracy.loss_rise_high is None) == (plan.evidence == "whole")
