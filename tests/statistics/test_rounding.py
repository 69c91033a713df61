"""When the errors of updates are rounding, and when they are more."""

from __future__ import annotations

import random
import statistics

import msgspec
import pytest

from autoaccel.records.base import decode, encode
from autoaccel.records.rounding import RoundingEvidence, UpdateError, UpdatesCompared
from autoaccel.statistics.rounding import (
    MAX_ERROR_SHARE,
    MAX_ERROR_SHARE_OF_ONE,
    MAX_LOSS_DIFFERENCE,
    MAX_SYSTEMATIC_SHARE,
    judge_updates,
)

LOSSES = tuple(2.0 - 0.02 * step + 0.1 * (-1) ** step for step in range(32))

WEIGHT = UpdateError(
    name="weight",
    kind="parameter",
    point=2,
    elements=10_000,
    coordinates=1000,
    gradient=1e-4,
    error=1e-9,
    systematic=0.0,
    repeat_error=0.0,
    noise=1e-5,
    mean=1e-5,
)
NORM = msgspec.structs.replace(WEIGHT, name="norm", elements=64, coordinates=64, error=1e-12, noise=1e-8, mean=1e-8)


def judged(
    *errors: UpdateError,
    losses: tuple[float, ...] = LOSSES,
    finite: bool = True,
    draws: bool = False,
    short: tuple[str, ...] = (),
) -> RoundingEvidence:
    found = UpdatesCompared(finite, draws, short, 4, errors or (WEIGHT, NORM), LOSSES, losses)
    evidence = judge_updates(found)
    assert decode(encode(evidence), RoundingEvidence) == evidence  # no number that JSON lacks
    return evidence


def weight(**changes: object) -> UpdateError:
    return msgspec.structs.replace(WEIGHT, **changes)


def norm(**changes: object) -> UpdateError:
    return msgspec.structs.replace(NORM, **changes)


def test_small_errors_hold() -> None:
    evidence = judged()
    assert (evidence.verdict, evidence.reason, evidence.steps, evidence.points) == ("holds", "", 32, 1)
    assert evidence.error_share == pytest.approx(1e-4)
    # Updates of two batches differ by the root of twice the variance.
    assert evidence.relative_error == pytest.approx(0.01 / 2**0.5)


@pytest.mark.parametrize("part", [0.5, 2.0])
def test_each_limit_decides_by_itself(part: float) -> None:
    """The limits are what is written down: just below all holds, just above nothing does."""
    verdict = "holds" if part < 1 else "too large"
    assert judged(weight(error=part * MAX_ERROR_SHARE * 1e-5), NORM).verdict == verdict
    assert judged(weight(systematic=(part * MAX_SYSTEMATIC_SHARE) ** 2 * 1e-5), NORM).verdict == verdict
    one = judged(WEIGHT, norm(error=part * MAX_ERROR_SHARE_OF_ONE * 1e-8))
    assert one.verdict == verdict
    assert one.worst_tensor == "norm"
    assert one.error_share < MAX_ERROR_SHARE / 10  # nobody would see it in all parameters together
    assert ("norm" in one.reason) == (part > 1)


@pytest.mark.parametrize(("share", "verdict"), [(0.49, "holds"), (0.51, "too large")])
def test_an_average_of_squares_is_held_to_the_error_of_what_is_squared(share: float, verdict: str) -> None:
    """The second moments of a ConvNeXt's first normalisation were refused, the gradients of which were not."""
    generator = random.Random(0)
    gradients = [generator.gauss(0, 1) for _ in range(200_000)]
    squared = [(gradient + generator.gauss(0, share**0.5)) ** 2 - gradient**2 for gradient in gradients]
    error = statistics.fmean(one**2 for one in squared)
    variance = statistics.pvariance([gradient**2 for gradient in gradients])
    second = norm(name="norm (exp_avg_sq)", kind="state", error=error, noise=variance, squares=True)
    evidence = judged(WEIGHT, second)
    assert evidence.worst_error_share == pytest.approx(share, rel=0.01)
    assert evidence.verdict == verdict
    assert judged(WEIGHT, msgspec.structs.replace(second, squares=False)).verdict == "too large"


def test_the_median_over_points_counts() -> None:
    """Of a deep network that its first steps throw far off, one point may show an error as large as the noise."""
    first, second, third = (weight(point=point, error=error) for point, error in ((6, 8e-6), (8, 3e-8), (10, 1e-8)))
    evidence = judged(first, second, third)
    assert (evidence.verdict, evidence.points) == ("holds", 3)
    assert evidence.error_share == evidence.worst_error_share == pytest.approx(0.003)
    assert judged(first, msgspec.structs.replace(second, error=8e-6), third).verdict == "too large"


def test_own_updates_that_differ_at_any_point_cannot_be_compared() -> None:
    """They are made once more at the last point only."""
    assert judged(weight(point=6), weight(point=8), weight(point=10, repeat_error=1e-5)).verdict == "open"


def test_a_tensor_counts_with_all_its_elements() -> None:
    """A thousand of ten thousand were looked at, of the other tensor all: it is a tenth as large as it seems."""
    small = norm(elements=1000, coordinates=1000, error=4e-7, noise=1e-5)
    assert judged(weight(error=0.0), small).error_share == pytest.approx(0.04 / 11)


def test_a_gradient_that_is_rounding_itself_is_not_judged() -> None:
    """The bias before a normalisation: Adam moves it as far as all others, and its error is as large as its updates."""
    garbage = norm(gradient=1e-4 * 1e-12, error=1.0)
    assert judged(WEIGHT, garbage).verdict == "holds"
    assert judged(WEIGHT, norm(gradient=1e-4 * 1e-8, error=1.0)).verdict == "too large"


def test_a_buffer_and_an_optimizers_state_are_judged_alone() -> None:
    for kind in ("buffer", "state"):
        evidence = judged(WEIGHT, norm(kind=kind, error=1.0))
        assert evidence.verdict == "too large"
        assert evidence.error_share == pytest.approx(1e-4)  # of the parameters


def test_what_does_not_scatter_at_all_may_not_differ_at_all() -> None:
    still = norm(noise=0.0, mean=0.0)
    assert judged(WEIGHT, still).verdict == "too large"
    assert judged(WEIGHT, msgspec.structs.replace(still, error=0.0)).verdict == "holds"


def test_what_is_not_finite_is_refused() -> None:
    found = UpdatesCompared(False, False, (), 4, (), LOSSES, ())
    assert judge_updates(found).verdict == "too large"
    assert "finite" in judge_updates(found).reason


def test_what_does_not_repeat_itself_cannot_be_compared() -> None:
    evidence = judged(weight(repeat_error=1e-5, error=1e-5))
    assert evidence.verdict == "open"
    assert "repeated" in evidence.reason


def test_losses_that_drift_apart_are_told_and_decide_nothing_before_a_network_has_settled() -> None:
    """A deep network at a large rate does so within ten steps: its loss was 36 beside 0.1, its updates the same."""
    scatter = (sum((loss - sum(LOSSES) / 32) ** 2 for loss in LOSSES) / 31) ** 0.5
    evidence = judged(losses=tuple(loss + 3 * scatter for loss in LOSSES))
    assert (evidence.verdict, evidence.loss_difference) == ("holds", pytest.approx(3.0))

    def later(times: float) -> RoundingEvidence:
        losses = tuple(loss + times * scatter for loss in LOSSES)
        return judge_updates(UpdatesCompared(True, False, (), 4, (WEIGHT, NORM), LOSSES, losses), by_losses=True)

    assert later(0.9 * MAX_LOSS_DIFFERENCE).verdict == later(-3.0).verdict == "holds"
    assert later(1.1 * MAX_LOSS_DIFFERENCE).verdict == "too large"
    assert "losses" in later(1.1 * MAX_LOSS_DIFFERENCE).reason


def test_where_random_numbers_are_drawn_they_may_be_the_difference() -> None:
    assert "dropout" in judged(weight(error=1.0), draws=True).reason
    assert "dropout" not in judged(weight(error=1.0)).reason


def test_what_is_kept_in_a_short_type_is_refused_whatever_its_errors() -> None:
    """An average over a thousand steps stands still in bfloat16, but not yet after the first few."""
    evidence = judged(short=("weight (exp_avg_sq)",))
    assert evidence.verdict == "too large"
    assert "exp_avg_sq" in evidence.reason
