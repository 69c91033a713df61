"""Evidence that settings keep the metric: what each kind of it costs, and the strongest that fits."""

from __future__ import annotations

import math
from collections.abc import Callable

from autoaccel.bench.rounding import UPDATE_STEPS
from autoaccel.proof.limits import EVALUATION_STEPS, MAX_TIMES, MIN_SHARE, MIN_STEPS, SURE
from autoaccel.records.evidence import MetricPlan, TrainingCosts
from autoaccel.records.options import TuneOptions
from autoaccel.records.workload import TrainingFacts
from autoaccel.space.change import Change


def training_costs(facts: TrainingFacts, step_seconds: float, ready_seconds: float, warmup_steps: int) -> TrainingCosts:
    """Return what training for the metric costs.

    Args:
        facts: Of the training.
        step_seconds: What a step takes.
        ready_seconds: What it takes to start and to warm up.
        warmup_steps: How many steps warm it up; a training makes these anyway.
    """
    start_seconds = max(0.0, ready_seconds - warmup_steps * step_seconds)
    batches = (facts.eval_samples or 0) / (facts.batch_size or 1)
    return TrainingCosts(facts.planned_steps, step_seconds, start_seconds, EVALUATION_STEPS * batches * step_seconds)


def is_kept_anyway(change: Change, options: TuneOptions) -> bool:
    """Return whether a change keeps the metric without a training that shows it.

    It changes no number, or only the random numbers that samples are drawn with: training is as from another seed.
    Where only planned runs will do, these must show that, too.
    """
    return not change.inexact_part or (options.evidence != "whole" and change.risk == "redraws")


def planned_runs(costs: TrainingCosts, pairs: int, max_pairs: int = 0) -> MetricPlan:
    """Return the strongest evidence: whole planned runs, of which so many pairs fit."""
    return MetricPlan("whole", costs.planned_steps, pairs, max_pairs)


def min_share(costs: TrainingCosts, pairs: int) -> MetricPlan:
    """Return the smallest part of the planned run that tells more than updates do, whether or not it fits."""
    return MetricPlan("share", max(MIN_STEPS, math.ceil(MIN_SHARE * costs.planned_steps)), pairs, 0)


def choose_evidence(
    costs: TrainingCosts,
    speedup: float,
    seconds: float,
    options: TuneOptions,
    only_rounds: bool = False,
    chance: Callable[[MetricPlan], float] = lambda _: 1.0,
) -> MetricPlan:
    """Return the strongest evidence that fits and is expected to decide, or the cheapest, which does not fit.

    Of settings that only round, a part of the run is not: 88 of 95 recipes of benchmarks/studies/unseen with such
    settings were decided by updates, though parts of runs came first wherever they fitted.

    Args:
        costs: Of trainings.
        speedup: That is expected of the settings' steps.
        seconds: That all trainings may take.
        options: How many pairs must train before anything can be said, and whether only planned runs will do.
        only_rounds: Whether the settings change nothing but how numbers are rounded, so that updates can be compared.
        chance: Returns the probability that runs decide.
    """
    pairs = options.metric_repeats
    whole_seconds = costs.pair_seconds(costs.planned_steps, speedup)
    most = min(MAX_TIMES * pairs, max(0, int(seconds // whole_seconds)))
    runs = planned_runs(costs, pairs, most)
    if options.evidence == "whole" or (runs.fits and not (only_rounds and chance(runs) < SURE)):
        return runs
    least = min_share(costs, pairs)
    if only_rounds:
        return MetricPlan("rounding", UPDATE_STEPS, 1, int(seconds >= costs.updates_seconds(UPDATE_STEPS, speedup)))
    steps = costs.affordable_steps(seconds / pairs, speedup)
    return MetricPlan("share", steps, pairs, pairs) if steps >= least.steps else least
