"""Whether what settings change in a training's updates is a small part of the noise that it lives with anyway.

The updates of different batches scatter around their mean: gradient noise (McCandlish, Kaplan, Amodei and the OpenAI
Dota team, "An Empirical Model of Large-Batch Training", 2018, arXiv:1812.06162). If settings change an
update, on the same batch, from the same weights and the same optimizer's state, two things can matter:

- its error scatters, too, and adds to that noise, whose variance grows with 1 / batch size: an error of r times this
  variance is what a batch smaller by a part r / (1 + r) would bring along.
- its mean over batches stays. It does not average out over a run, so it is compared with what the mean gradient makes
  of an update, by which the training advances: a part s of that is at worst what a learning rate wrong by s would be,
  in size or direction. What momentum adds is left out of both, because it is not of these batches.

Early in a run the mean may be much larger than the noise, and errors be small beside it that are not so later: they are
compared with the noise all the same. Errors may be large for a step or two in a training that they do not harm, such as
one whose first steps throw a deep network far off. Errors that harm are there at most points, so the median of points
counts; and what is too large at early points may be asked again at later ones, which then decide.

Lengths are in the unit of the loss: each coordinate counts with the root mean square of its gradient. So coordinates
that the loss does not depend on, such as a bias before a normalisation, under Adam as large as all others and pure
rounding, count for nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

import msgspec

from autoaccel.records.rounding import RoundingEvidence, UpdateError, UpdatesCompared, Verdict

MAX_ERROR_SHARE = 0.05
"""Set on the planted cases of benchmarks/studies/rounding: of those that harm, most have more, of the others few."""

MAX_ERROR_SHARE_OF_ONE = 0.5
"""Of one tensor, which may be lost among all: most of its updates' scatter must still be its own. No case needs it."""

MAX_SYSTEMATIC_SHARE = 0.15
"""Likewise no case needs it; harmless ones that keep to the first limit have up to 0.12."""

MAX_LOSS_DIFFERENCE = 1.0
"""After fifty steps: of the setting cases most that lose gradients rise by 2 and more, harmless ones by 0.3 at most.
That losses decide at all was prompted by a held-out case (digits_perceptron, gradients lost), which no longer checks
it."""

_MIN_GRADIENT = 1e-10
"""Of the largest tensor's mean square: where float32 rounds (6e-8, over some operators), a gradient is noise alone."""

_MAX_RATIO = 1e6  # more says nothing more, and JSON has no infinity


def judge_updates(found: UpdatesCompared, by_losses: bool = False) -> RoundingEvidence:
    """Return whether the settings that made these updates only round, in the sense above.

    `open` says that it cannot be told, such as where the user's own updates differ when they are repeated.

    Args:
        found: What differs.
        by_losses: Whether losses decide as well: after enough steps for a network to settle.
    """
    points = len({one.point for one in found.errors})
    unknown = RoundingEvidence("open", "", len(found.baseline_losses), points, found.batches)
    if not found.finite:
        return msgspec.structs.replace(unknown, verdict="too large", reason="its updates or losses are not finite")
    judged = _worth_judging(found.errors)
    if not judged:
        return msgspec.structs.replace(unknown, reason="no parameter received a gradient")
    overall = [_together(judged, point) for point in sorted({one.point for one in judged})]
    shares = _of_each(judged)
    worst = max(shares, key=shares.__getitem__)
    evidence = msgspec.structs.replace(
        unknown,
        error_share=statistics.median(map(error_share, overall)),
        worst_error_share=shares[worst],
        worst_tensor=worst,
        systematic_share=statistics.median(map(systematic_share, overall)),
        repeat_share=max(map(repeat_share, overall)),
        loss_difference=loss_difference(found.baseline_losses, found.losses),
    )
    verdict, reason = _verdict(evidence, found.shortened, by_losses)
    if verdict == "too large" and found.draws_numbers:
        reason += "; or it draws different random numbers, such as those of dropout"
    return msgspec.structs.replace(evidence, verdict=verdict, reason=reason)


def may_settle(found: UpdatesCompared, evidence: RoundingEvidence) -> bool:
    """Return whether an error that is too large may be small later in the run; one that stays for good is not."""
    return evidence.verdict == "too large" and found.finite and not found.shortened


def error_share(one: UpdateError) -> float:
    """Return the mean square of the error of an update, over the variance of updates between batches."""
    return _ratio(one.error, one.noise)


def repeat_share(one: UpdateError) -> float:
    """Return the same share for the user's own update, made once more."""
    return _ratio(one.repeat_error, one.noise)


def systematic_share(one: UpdateError) -> float:
    """Return the length of the mean error, over that of what the mean gradient makes of an update.

    The scatter of so few batches adds to the mean gradient's square, and is not taken off: where the mean cannot be
    seen yet, the share is too small rather than erratic.
    """
    return math.sqrt(_ratio(max(0.0, one.systematic), one.mean))


def loss_difference(baseline: Sequence[float], other: Sequence[float]) -> float:
    """Return by how much the losses of the last half of the same steps are larger on average.

    The unit is the standard deviation of all of the user's own losses, their fall included.
    """
    half = len(baseline) // 2
    difference = statistics.fmean(other[-half:]) - statistics.fmean(baseline[-half:])
    return math.copysign(_ratio(abs(difference), statistics.stdev(baseline)), difference)


def _ratio(part: float, whole: float) -> float:
    if not part:
        return 0.0
    return min(_MAX_RATIO, part / whole) if whole else _MAX_RATIO


def _worth_judging(errors: Sequence[UpdateError]) -> list[UpdateError]:
    """Return those of tensors whose gradients are more than what rounding leaves of nothing."""
    largest = max((one.gradient for one in errors), default=0.0)
    return [one for one in errors if one.kind == "buffer" or one.gradient > _MIN_GRADIENT * largest]


def _of_each(errors: Sequence[UpdateError]) -> dict[str, float]:
    """Return name -> the share of the error of each tensor, the median over points."""
    found: dict[str, list[float]] = {}
    for one in errors:
        found.setdefault(one.name, []).append(_of_what_is_squared(one) if one.squares else error_share(one))
    return {name: statistics.median(shares) for name, shares in found.items()}


def _of_what_is_squared(one: UpdateError) -> float:
    """Return the share r of a gradient's error that makes the error of its square as large as it is.

    Of a normally distributed gradient with mean zero and an independent error of r times its variance, the error of the
    square has a mean square of 2 r + 1.5 r^2 times the square's variance, from the normal distribution's fourth moment.
    """
    return (math.sqrt(4 + 6 * error_share(one)) - 2) / 3


def _together(errors: Sequence[UpdateError], point: int) -> UpdateError:
    """Return the errors of all parameters at one point as that of one tensor."""
    parts = [one for one in errors if one.kind == "parameter" and one.point == point]

    def total(length: Callable[[UpdateError], float]) -> float:
        return math.fsum(length(one) * one.elements / one.coordinates for one in parts)

    return UpdateError(
        name="",
        kind="parameter",
        point=point,
        elements=sum(one.elements for one in parts),
        coordinates=sum(one.coordinates for one in parts),
        gradient=0.0,
        error=total(lambda one: one.error),
        systematic=total(lambda one: one.systematic),
        repeat_error=total(lambda one: one.repeat_error),
        noise=total(lambda one: one.noise),
        mean=total(lambda one: one.mean),
    )


def _verdict(evidence: RoundingEvidence, shortened: Sequence[str], by_losses: bool) -> tuple[Verdict, str]:
    """Return what the numbers say, and why."""
    if evidence.repeat_share > MAX_ERROR_SHARE:
        return "open", "your own updates also differ when they are repeated"
    if shortened:
        return "too large", f"it keeps {shortened[0]} in a short type, and the precision lost adds up only later"
    limits = (
        (evidence.error_share, MAX_ERROR_SHARE, "the mean square of its updates' error", "the variance of your own"),
        (
            evidence.worst_error_share,
            MAX_ERROR_SHARE_OF_ONE,
            f"the mean square of its updates' error in {evidence.worst_tensor}",
            "their own variance",
        ),
        (evidence.systematic_share, MAX_SYSTEMATIC_SHARE, "the mean of its updates' error", "the mean of your own"),
        (
            evidence.loss_difference if by_losses else 0.0,
            MAX_LOSS_DIFFERENCE,
            "the rise of its losses",
            "the scatter of yours from step to step",
        ),
    )
    for share, most, what, whole in limits:
        if share > most:
            return "too large", f"{what} is {share:.2g} of {whole}; up to {most:g} counts as rounding"
    return "holds", ""
