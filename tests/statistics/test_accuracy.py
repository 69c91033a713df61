"""The drop of a metric and its bound."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.messages import Finished
from autoaccel.records.proof import TrainedPair
from autoaccel.records.recipe import Constraint
from autoaccel.records.workload import Direction
from autoaccel.statistics.accuracy import (
    MANY_RUNS,
    SAMPLE_DEGREES,
    Bound,
    chance_to_hold,
    compare_metric,
    confidence_of_look,
    expected_scatter,
    known_scatter,
    loss_rises,
    metric_status,
    pair_up,
    runs_needed,
    shows_a_drop,
)
from autoaccel.statistics.sequences import NOTHING_KNOWN, Scatter
from tests.samples import FACTS

ONE_PERCENT = Constraint(0.01, True)
NARROW = Bound()
OF_MANY_SAMPLES = msgspec.structs.replace(FACTS, eval_samples=10_000)


def paired(baseline: list[float], other: list[float]) -> list[TrainedPair]:
    return [TrainedPair(metrics) for metrics in zip(baseline, other, strict=True)]


def judged(
    baseline: list[float],
    other: list[float],
    direction: Direction = "maximize",
    relative: bool = True,
    bound: Bound = NARROW,
) -> Accuracy:
    facts = msgspec.structs.replace(FACTS, direction=direction)
    return compare_metric(facts, paired(baseline, other), Constraint(0.01, relative), bound)


def test_the_drop_is_paired_run_by_run() -> None:
    # The runs differ by 0.2 from seed to seed, the settings by exactly 0.01: pairing sees only the latter.
    accuracy = judged([0.7, 0.8, 0.9], [0.69, 0.79, 0.89], relative=False)
    assert accuracy.drop == pytest.approx(0.01)
    # The metric was never seen to move by less; of three runs that do not differ 63 % of all may.
    assert accuracy.drop_high == pytest.approx(0.0163, abs=1e-4)


def test_three_equal_drops_of_one_sample_may_be_chance() -> None:
    equal = judged([0.98, 0.98, 0.9755], [0.9777, 0.9777, 0.9733], relative=False)
    assert equal.drop == pytest.approx(0.0023, abs=1e-4)
    assert equal.drop + 0.0008 < equal.drop_high < equal.drop + 0.0015


def test_a_metric_that_never_moves_is_bounded_by_what_one_sample_can_move_it_by() -> None:
    """All seeds alike, at 1.0, gave a bound of no width: what had not moved three times could not move."""

    def bound(value: float, runs: int, samples: int | None) -> float:
        pairs = paired([value] * runs, [value] * runs)
        facts = msgspec.structs.replace(FACTS, eval_samples=samples)
        found = compare_metric(facts, pairs, ONE_PERCENT, Bound()).drop_high
        assert found is not None
        return found

    assert bound(1.0, 3, 450) == pytest.approx(0.632 / 450, rel=0.01)
    assert bound(1.0, 6, 450) == pytest.approx(0.393 / 450, rel=0.01)
    assert bound(100.0, 3, 450) == bound(1.0, 3, 450)  # percentages
    # So few samples cannot show that no more than a percent is lost, nor can nobody knows how many.
    assert bound(1.0, 3, 40) > 0.01
    assert bound(1.0, 6, None) > 0.3


def test_the_drop_of_a_minimized_metric_is_its_rise() -> None:
    assert judged([2.0, 2.0], [2.2, 2.2], "minimize").drop == pytest.approx(0.1)
    assert judged([2.0, 2.0], [1.8, 1.8], "minimize").drop == pytest.approx(-0.1)


def test_a_relative_drop_is_a_share_of_the_baseline() -> None:
    assert judged([0.5, 0.5], [0.49, 0.49]).drop == pytest.approx(0.02)
    assert judged([0.5, 0.5], [0.49, 0.49], relative=False).drop == pytest.approx(0.01)


def test_the_bound_holds_as_often_as_it_says() -> None:
    generator = np.random.default_rng(1)
    held = 0
    for _ in range(1000):
        baseline = generator.normal(0.9, 0.02, 3)
        other = baseline - generator.normal(0.005, 0.003, 3)
        held += judged(list(baseline), list(other), relative=False).drop_high >= 0.005
    assert 930 <= held <= 970


def test_the_constraint_holds_up_to_its_bound() -> None:
    half_a_percent_worse = judged([1.0, 0.9999], [0.995, 0.9949])
    assert metric_status(half_a_percent_worse, Constraint(0.0053, True)) == "holds"
    assert metric_status(half_a_percent_worse, Constraint(0.004, True)) == "drops"


def test_what_more_runs_could_tell_stays_open() -> None:
    scattered = judged([0.90, 0.92, 0.91], [0.91, 0.90, 0.915])
    assert metric_status(None, ONE_PERCENT) == "open"
    assert metric_status(scattered, ONE_PERCENT) == "open"


def test_a_drop_is_shown_though_it_may_be_allowed_and_scatter_shows_none() -> None:
    allowed = judged([1.0, 0.9999], [0.995, 0.9949])
    assert metric_status(allowed, ONE_PERCENT) == "holds" and shows_a_drop(allowed, ONE_PERCENT)
    scattered = judged([0.90, 0.94, 0.92], [0.93, 0.85, 0.91])
    assert not shows_a_drop(scattered, ONE_PERCENT)  # though it is two percent on average
    assert not shows_a_drop(judged([0.9, 0.91], [0.9, 0.91]), ONE_PERCENT)


def test_all_looks_together_err_no_more_than_one_would() -> None:
    generator = np.random.default_rng(3)
    passed = 0
    for _ in range(1000):
        # The metric drops by exactly what is allowed.
        drops = generator.normal(0.01, 0.004, 6)
        baseline = np.full(6, 0.9)
        for count in range(3, 7):
            look = Bound(confidence_of_look(count, first=3, most=6))
            found = judged(baseline[:count].tolist(), (baseline - drops)[:count].tolist(), relative=False, bound=look)
            if metric_status(found, Constraint(0.01, False)) == "holds":
                passed += 1
                break
    assert passed <= 60


def test_one_run_says_nothing() -> None:
    with pytest.raises(ValueError, match="two or more paired runs"):
        judged([0.9], [0.9])


def test_a_bound_that_holds_at_every_look_holds_until_the_end_of_a_long_check() -> None:
    """Looked at after every one of forty runs, as a check is that goes on night after night."""
    generator = np.random.default_rng(5)
    for known in (Scatter(0.0, 0.0), Scatter(0.004, 4)):
        missed = 0
        for _ in range(400):
            drops = generator.normal(0.01, 0.004, 40)
            missed += any(
                drops[:count].mean() + Bound(known=known, at_every_look=True).radius(count, drops[:count].std(ddof=1))
                < 0.01
                for count in range(3, 41)
            )
        assert missed <= 0.07 * 400


def scores(*numbers: float) -> bytes:
    return np.array(numbers, dtype=np.float32).tobytes()


def test_the_samples_tell_how_far_a_difference_of_means_may_scatter() -> None:
    baseline, other = scores(*[1.0] * 90, *[0.0] * 10), scores(*[1.0] * 88, *[0.0] * 12)
    pair = pair_up(Finished(0.9, scores=baseline), Finished(0.88, scores=other))
    assert pair.metrics == (0.9, 0.88)
    assert pair.sample_error == pytest.approx(np.sqrt(0.02 * 0.98 / 99), rel=1e-3)
    assert known_scatter([pair], Constraint(0.01, False)) == Scatter(pytest.approx(0.01407, rel=1e-3), 4)
    assert known_scatter([pair], Constraint(0.01, True)).deviation == pytest.approx(0.01407 / 0.9, rel=1e-3)
    # Other samples, or a metric that is no mean: nothing is known.
    unknown = pair_up(Finished(0.9, scores=baseline), Finished(0.88, scores=b""))
    assert unknown.sample_error is None
    assert known_scatter([pair, unknown], Constraint(0.01, False)).degrees == 0


def test_runs_that_were_not_looked_at_alike_are_compared_at_their_end() -> None:
    baseline, other = Finished(0.90, last_metric=0.92, points=5), Finished(0.91, last_metric=0.91, points=1)
    assert pair_up(baseline, other).metrics == (0.92, 0.91)
    assert pair_up(baseline, baseline).metrics == (0.90, 0.90)


def test_what_is_known_of_the_scatter_makes_few_runs_tell_more() -> None:
    few, many = Bound().radius(3, 0.004), Bound(known=Scatter(0.004, 4)).radius(3, 0.004)
    assert many < 0.7 * few
    # It is outweighed by what is seen: twenty runs that scatter three times as much have nearly the bound they had.
    assert Bound(known=Scatter(0.001, 4)).radius(20, 0.003) == pytest.approx(Bound().radius(20, 0.003), rel=0.15)


def test_a_loss_that_stays_behind_is_told_as_a_part_of_its_fall() -> None:
    pairs = [TrainedPair((0.1, 0.1), (1.0, 1.03), 2.5), TrainedPair((0.1, 0.1), (1.1, 1.13), 2.6)]
    assert loss_rises(pairs) == pytest.approx([0.02, 0.02])
    assert loss_rises([*pairs, TrainedPair((0.1, 0.1))]) == []
    # The metric is that of chance, and cannot drop.
    found = compare_metric(OF_MANY_SAMPLES, pairs, ONE_PERCENT, Bound(), share=0.1)
    assert found.drop == 0.0 and found.loss_rise == pytest.approx(0.02)
    assert metric_status(found, Constraint(0.01, True)) == "drops"
    assert metric_status(found, Constraint(0.03, True)) == "holds"
    whole = compare_metric(OF_MANY_SAMPLES, pairs, ONE_PERCENT, Bound())
    assert whole.loss_rise is None  # the metric is what counts in the end


def test_a_loss_that_has_not_fallen_yet_proves_nothing() -> None:
    pairs = [TrainedPair((0.1, 0.1), (2.5, 2.5001), 2.5), TrainedPair((0.1, 0.1), (2.6, 2.5999), 2.5)]
    found = compare_metric(OF_MANY_SAMPLES, pairs, ONE_PERCENT, Bound(), share=0.1)
    assert metric_status(found, ONE_PERCENT) == "open"


def test_runs_needed_are_those_after_which_the_bound_is_narrow_enough() -> None:
    drops = [0.002, -0.006, 0.004, 0.0]
    needed = runs_needed(drops, 0.01, Bound(), center=0.0)
    deviation = float(np.std(drops, ddof=1))
    assert Bound().radius(needed, deviation) <= 0.01
    assert needed == len(drops) or Bound().radius(needed - 1, deviation) > 0.01
    scattered = runs_needed([0.02, -0.06, 0.04, 0.0], 0.01, Bound(), center=0.0)
    assert Bound().radius(scattered, 10 * deviation) <= 0.01 < Bound().radius(scattered - 1, 10 * deviation)
    assert runs_needed([0.05, 0.06, 0.055], 0.01, Bound()) == MANY_RUNS
    assert runs_needed([0.0, 0.0], 0.01, Bound()) == 2


@pytest.mark.parametrize(("deviation", "degrees", "runs"), [(0.002, 4, 3), (0.005, 4, 6), (0.005, 2, 6), (0.006, 6, 6)])
def test_the_chance_to_hold_is_how_often_the_bound_of_an_average_mean_is_within_the_allowance(
    deviation: float, degrees: int, runs: int
) -> None:
    allowance, bound = 0.005, Bound(0.975, Scatter(0.0, 4))
    squares = np.random.default_rng(0).chisquare(degrees, 20_000) / degrees
    decided = [
        bound._replace(known=Scatter(drawn, 4)).radius(runs, drawn) <= allowance for drawn in deviation / squares**0.5
    ]
    found = chance_to_hold(Scatter(deviation, degrees), allowance, bound, runs)
    assert found == pytest.approx(np.mean(decided), abs=0.015)
    assert 0.01 < found < 0.99


def test_the_chance_to_hold_is_sure_where_nothing_scatters_or_nothing_is_known() -> None:
    assert chance_to_hold(NOTHING_KNOWN, 0.005, NARROW, 3) == 1.0
    assert chance_to_hold(Scatter(0.0, 4), 0.0, NARROW, 3) == 1.0  # metrics that are equal keep any constraint
    assert chance_to_hold(Scatter(0.001, 4), 0.0, NARROW, 3) == 0.0
    assert chance_to_hold(Scatter(10.0, 4), 0.005, NARROW, 3) < 1e-6


def test_more_samples_let_expect_less_scatter() -> None:
    few, many, unknown = expected_scatter(400), expected_scatter(40_000), expected_scatter(None)
    assert (few.deviation, many.deviation) == pytest.approx((0.005, 0.0005))
    assert many.deviation < unknown.deviation < few.deviation
    assert {few.degrees, unknown.degrees} == {SAMPLE_DEGREES}
