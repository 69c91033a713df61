"""The drop of the metric and its upper bound, from runs that differ in nothing but the settings."""

from __future__ import annotations

import itertools
import math
import statistics
from array import array
from collections.abc import Sequence
from typing import Literal, NamedTuple

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.messages import Finished
from autoaccel.records.proof import TrainedPair
from autoaccel.records.recipe import Constraint
from autoaccel.records.workload import Direction, TrainingFacts
from autoaccel.statistics.sequences import NOTHING_KNOWN, Scatter, believed_deviation, deviation_of, t_radius_for
from autoaccel.statistics.student import t_quantile

BOUND_CONFIDENCE = 0.95

SAMPLE_DEGREES = 4
"""How many runs the scatter from seed to seed counts for that the evaluation samples predict, if each of them comes out
right or wrong by chance. Of trainings that are nearly finished this is most of the truth
(Jordan, "On the Variance of Neural Network Training with respect to Test Sets and Distributions", ICLR 2024); earlier a
whole run may be a better or worse one. With four degrees it may scatter 2.4 times as much in one of twenty cases, and
after some runs their own scatter decides. `python -m benchmarks.studies.seeds` compares that with recorded runs."""

_CHANCE_OF_SAMPLES = 0.1
"""Standard deviation of a metric's drop from seed to seed, times the square root of the number of samples that it is
the mean of: before any run is made. Of the recorded trainings of `benchmarks/studies/seeds.py` it is 0.05 and 0.09 (the
digits, bfloat16 and larger batches), 0 and 0.04 (a table), of char_gpt's loss 0.02 and 0.7. Samples whose score
changes by 1 with a probability of a hundredth predict 0.1."""

_UNKNOWN_DEVIATION = 0.004
"""The same as a share of the metric where nobody knows how many samples it is the mean of, such as a script's loss: the
geometric mean of six losses in `scripts.jsonl`, `unseen.jsonl` and `seeds.jsonl`, of five trainings or parts of them
(0.0003 to 0.03)."""

MANY_RUNS = 1000
"""What `runs_needed` returns where no realistic number of runs would suffice."""

MetricStatus = Literal["holds", "drops", "open"]


class Bound(NamedTuple):
    """How far above the mean of some runs' drops its one-sided upper bound lies."""

    confidence: float = BOUND_CONFIDENCE
    known: Scatter = NOTHING_KNOWN  # of the drops, before they were seen
    at_every_look: bool = False  # true however often one looks while runs are added, so that one may stop at any

    def radius(self, count: int, deviation: float) -> float:
        """Return the distance for `count` runs, at least two, with this sample standard deviation.

        What is known of the scatter counts beside the runs' own: a moderated t (Smyth, Statistical Applications in
        Genetics and Molecular Biology 2004); with `at_every_look` the interval of `t_radius`, of whose error half is on
        either side.
        """
        if self.at_every_look:
            return t_radius_for(count, deviation, 2 * (1 - self.confidence), self.known)
        believed = believed_deviation(count, deviation, self.known)
        return t_quantile(self.confidence, count - 1 + int(self.known.degrees)) * believed / math.sqrt(count)


def pair_up(baseline: Finished, other: Finished) -> TrainedPair:
    """Return the results of two trainings from the same seed, the baseline's first; see `Finished`."""
    alike = baseline.points == other.points
    return TrainedPair(
        metrics=(baseline.metric, other.metric) if alike else (baseline.last_metric, other.last_metric),
        losses=(baseline.loss, other.loss) if baseline.loss is not None and other.loss is not None else None,
        first_loss=baseline.first_loss,
        sample_error=_sample_error(baseline.scores, other.scores),
    )


def _sample_error(baseline: bytes, other: bytes) -> float | None:
    """Return the standard error of the difference of two means over the same samples, from their float32 scores."""
    mine, theirs = array("f", baseline), array("f", other)
    if len(mine) != len(theirs) or len(mine) < 2:
        return None
    differences = [one - another for one, another in zip(mine, theirs, strict=True)]
    return deviation_of(differences) / math.sqrt(len(differences))


def compare_metric(
    facts: TrainingFacts, pairs: Sequence[TrainedPair], constraint: Constraint, bound: Bound, share: float = 1.0
) -> Accuracy:
    """Return how much worse the metric gets, run by run from the same seed, with a one-sided bound.

    The drop is in the constraint's unit: a share of the baseline's mean if it is relative. Runs that drop alike do not
    show that the next one would: of n that did not move by a step of the metric, Clopper and Pearson
    (Biometrika 1934) let 1 - (1 - confidence)^(1/n) of all move, which the bound allows for at least.

    Where only a part of the run was trained, the loss of the training is compared as well; see `loss_rises`.

    Args:
        facts: Of the training, whose metric it is.
        pairs: What was trained, each from another seed.
        constraint: What is allowed.
        bound: Of the drop; that of the loss has the same confidence, with nothing known of its scatter.
        share: Of the planned run that was trained.

    Raises:
        ValueError: If there are fewer than two pairs.
    """
    if len(pairs) < 2:
        raise ValueError(f"two or more paired runs must be given, but got {len(pairs)}")
    baseline_runs, recipe_runs = (tuple(pair.metrics[side] for pair in pairs) for side in (0, 1))
    unit = metric_unit(pairs, constraint)
    drops = metric_drops(facts.direction, pairs, constraint)
    drop = statistics.fmean(drops)
    by_spread = bound.radius(len(drops), deviation_of(drops))
    step = _resolution([*baseline_runs, *recipe_runs], facts.eval_samples) / unit
    rises = loss_rises(pairs) if share < 1 else []
    of_rises = bound._replace(known=NOTHING_KNOWN)
    return Accuracy(
        metric=facts.metric,
        direction=facts.direction,
        baseline=statistics.fmean(baseline_runs),
        recipe=statistics.fmean(recipe_runs),
        drop=drop,
        drop_high=drop + max(by_spread, (1 - (1 - bound.confidence) ** (1 / len(pairs))) * step),
        repeats=len(pairs),
        share=share,
        baseline_runs=baseline_runs,
        recipe_runs=recipe_runs,
        loss_rise=statistics.fmean(rises) if rises else None,
        loss_rise_high=statistics.fmean(rises) + of_rises.radius(len(rises), deviation_of(rises)) if rises else None,
    )


def metric_unit(pairs: Sequence[TrainedPair], constraint: Constraint) -> float:
    """Return what a drop is told in: the size of the baseline's mean metric if the constraint is relative, else 1."""
    baseline = abs(statistics.fmean(pair.metrics[0] for pair in pairs))
    return baseline if constraint.relative and baseline else 1.0


def metric_drops(direction: Direction, pairs: Sequence[TrainedPair], constraint: Constraint) -> list[float]:
    """Return how much worse each seed's metric gets, in the constraint's unit."""
    worse = (1.0 if direction == "maximize" else -1.0) / metric_unit(pairs, constraint)
    return [worse * (baseline - other) for baseline, other in (pair.metrics for pair in pairs)]


def known_scatter(pairs: Sequence[TrainedPair], constraint: Constraint) -> Scatter:
    """Return the scatter of drops that the evaluation samples predict if each scores by chance."""
    errors = [pair.sample_error for pair in pairs if pair.sample_error is not None]
    if len(errors) < len(pairs):
        return NOTHING_KNOWN
    typical = math.sqrt(statistics.fmean(error**2 for error in errors))
    return Scatter(typical / metric_unit(pairs, constraint), SAMPLE_DEGREES)


def expected_scatter(samples: int | None) -> Scatter:
    """Return the scatter of a metric's drops from seed to seed before any run was made, as a share of the metric.

    A metric that is the mean of so many samples is taken to be of the size of 1, as accuracies are. As little is known
    as of the samples' word; see `SAMPLE_DEGREES`.

    Args:
        samples: That it is computed from; None if that is not known.
    """
    deviation = _CHANCE_OF_SAMPLES / math.sqrt(samples) if samples else _UNKNOWN_DEVIATION
    return Scatter(deviation, SAMPLE_DEGREES)


def chance_to_hold(scatter: Scatter, allowance: float, bound: Bound, runs: int) -> float:
    """Return the probability that runs of settings that change nothing show that the metric keeps the constraint.

    That of a scatter with which their bound is within the allowance where their mean is 0, as it is on average:
    P(deviation <= s) = P(chi2 >= degrees * typical^2 / s^2), of even degrees a finite sum (Abramowitz and Stegun,
    26.4.21). 1 if nothing is known of the scatter.

    Args:
        scatter: What is known of that of drops, in the unit of the allowance; odd degrees count as one more.
        allowance: Zero or more.
        bound: That is asked for after all of the runs. Of what is known at that time only the degrees count.
        runs: That are made at most, at least two.
    """
    widest = allowance / bound._replace(known=bound.known._replace(deviation=1.0)).radius(runs, 1.0)
    if not scatter.degrees * scatter.deviation or not widest:
        return float(widest > 0 or not scatter.deviation)
    half = scatter.degrees * (scatter.deviation / widest) ** 2 / 2
    logs = (power * math.log(half) - math.lgamma(power + 1) - half for power in range(math.ceil(scatter.degrees / 2)))
    return math.fsum(map(math.exp, logs))


def loss_rises(pairs: Sequence[TrainedPair]) -> list[float]:
    """Return by which part of its fall so far each seed's loss stays behind; empty where that is not known.

    The losses are of the same batches in the same order, over the last quarter of what was trained. They are
    compared with how far the baseline's has fallen since its first step: a metric that has not moved yet, early in a
    run, cannot drop, but a loss that falls more slowly shows. A share of the loss itself would not do: one close
    to zero scatters by a multiple of itself.
    """
    known = [
        (pair.losses, pair.first_loss) for pair in pairs if pair.losses is not None and pair.first_loss is not None
    ]
    if len(known) < max(2, len(pairs)):
        return []
    fall = statistics.fmean(first - baseline for (baseline, _), first in known)
    # Of a loss that has not fallen yet any difference is too much: nothing was learned that could be missing.
    return [(other - baseline) / max(fall, 1e-9) for (baseline, other), _ in known]


def _resolution(values: Sequence[float], samples: int | None) -> float:
    """Return the smallest step in which a metric was seen to move.

    If it never did, it is what one of the samples can move it by, where it is their mean: most metrics are, and lie
    between 0 and 1 or, as percentages and losses do, not far below their own size. Of unknown samples there may be one.
    """
    ordered = sorted(set(values))
    steps = [after - before for before, after in itertools.pairwise(ordered)]
    seen = [step for step in steps if step > 1e-9 * abs(ordered[-1])]
    return min(seen) if seen else max(1.0, abs(ordered[-1])) / (samples or 1)


def confidence_of_look(runs: int, first: int, most: int, error: float = 1 - BOUND_CONFIDENCE) -> float:
    """Return the confidence of the bound after `runs` runs, so that all looks together err with `error`.

    By then the square of the share of the runs made is spent of it (an error-spending function: Kim and DeMets,
    Biometrika 1987): early looks, of which hardly any could tell, leave most to the last.

    Args:
        runs: Made so far.
        first: After which one looks for the first time.
        most: After which one looks for the last time.
        error: Allowed for all looks.
    """
    before = ((runs - 1) / most) ** 2 if runs > first else 0.0
    return 1 - error * ((runs / most) ** 2 - before)


def metric_status(accuracy: Accuracy | None, constraint: Constraint) -> MetricStatus:
    """Return whether the metric keeps the constraint, breaks it, or more runs could tell.

    Of a part of the run the loss must keep it, too: as much of its fall may be missing as of the metric.
    """
    bounds = _bounds(accuracy, constraint) if accuracy is not None else []
    if bounds and all(high <= allowed for _, high, allowed in bounds):
        return "holds"
    return "drops" if any(2 * mean - high > allowed for mean, high, allowed in bounds) else "open"


def seems_to_drop(drops: Sequence[float], allowance: float, known: Scatter) -> bool:
    """Return whether more is lost than is allowed even if the mean is one standard error better than it looks.

    Args:
        drops: That were seen, at least two.
        allowance: In the same unit.
        known: What is known of their scatter beforehand.
    """
    return _hoped_mean(drops, known) > allowance


def shows_a_drop(accuracy: Accuracy, constraint: Constraint) -> bool:
    """Return whether the runs that were made show that the metric drops at all, even by less than is allowed."""
    return any(2 * mean - high > 0 for mean, high, _ in _bounds(accuracy, constraint))


def _bounds(accuracy: Accuracy, constraint: Constraint) -> list[tuple[float, float, float]]:
    """Return mean, bound and allowance of the metric's drop, and of the rise of the loss of a part of the run."""
    found = []
    if accuracy.drop is not None and accuracy.drop_high is not None:
        found.append((accuracy.drop, accuracy.drop_high, constraint.max_drop))
    if accuracy.loss_rise is not None and accuracy.loss_rise_high is not None:
        allowed = allowed_rise(accuracy.baseline or 0.0, constraint)
        found.append((accuracy.loss_rise, accuracy.loss_rise_high, allowed))
    return found


def allowed_rise(baseline: float, constraint: Constraint) -> float:
    """Return which part of its fall the loss may stay behind: as much as may be missing of the baseline's metric."""
    return constraint.max_drop if constraint.relative or not baseline else constraint.max_drop / abs(baseline)


def runs_needed(drops: Sequence[float], allowance: float, bound: Bound, center: float | None = None) -> int:
    """Return after how many runs in all the bound of the drop can be expected to stay within the allowance.

    At least as many as there are; `MANY_RUNS` where no number is expected to suffice.

    Args:
        drops: That were seen, at least two.
        allowance: In the same unit.
        bound: That is asked for.
        center: The mean that is expected; None: one standard error below the one seen, so that only what is hopeless
            by a margin is given up. Giving up too early claims nothing, so no error is spent on it.
    """
    count, deviation = len(drops), believed_deviation(len(drops), deviation_of(drops), bound.known)
    if center is None:
        center = _hoped_mean(drops, bound.known)
    if center >= allowance:
        return count if deviation == 0 and center == allowance else MANY_RUNS

    def suffices(runs: int) -> bool:
        return center + bound.radius(runs, deviation) <= allowance

    enough = count
    while not suffices(enough):
        enough *= 2
        if enough >= MANY_RUNS:
            return MANY_RUNS
    too_few = enough // 2 if enough > count else enough - 1
    while enough - too_few > 1:
        between = (enough + too_few) // 2
        enough, too_few = (between, too_few) if suffices(between) else (enough, between)
    return enough


def _hoped_mean(drops: Sequence[float], known: Scatter) -> float:
    """Return the mean drop if it is one standard error better than it looks."""
    deviation = believed_deviation(len(drops), deviation_of(drops), known)
    return statistics.fmean(drops) - deviation / math.sqrt(len(drops))
