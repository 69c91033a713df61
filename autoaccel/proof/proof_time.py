"""What a proof takes: its pairs for the speed, and what judging the metric adds to them."""

from __future__ import annotations

import math
from typing import NamedTuple

from autoaccel.proof.judging import MetricJudge
from autoaccel.proof.metric import MetricProof
from autoaccel.proof.proof import Proof
from autoaccel.records.contender import OPEN
from autoaccel.records.evidence import MetricPlan
from autoaccel.runs.plan import PROOF_MARGIN
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.search.ranking import Candidate
from autoaccel.space.change import Change
from autoaccel.statistics.deciding import MIN_PAIRS, deciding_pairs, expected_pairs, likely_pairs


class MetricTime(NamedTuple):
    """What judging the metric takes of a proof."""

    seconds: float = 0.0
    training_pairs: int = 0  # how many pairs train for it: these tell the speed, too
    at_once: bool = False  # whether they do so from the first on


NO_METRIC = MetricTime()


def proof_seconds(
    pair_seconds: float,
    speedup: float | None,
    metric: MetricTime = NO_METRIC,
    with_further: bool = True,
    drift: float = 0.0,
) -> float:
    """Return how long a proof may take: what is expected, with a margin of a fifth.

    Args:
        pair_seconds: What a pair takes that only tells the speed.
        speedup: Of the settings' steps over the baseline's; None if there are no settings to prove yet.
        metric: What judging it takes.
        with_further: Whether the further pairs after a close decision are counted; the proof holds without them, too.
        drift: Of the log speed-up from hour to hour, for which the interval has room.
    """
    deciding = deciding_pairs(speedup, drift) if speedup else MIN_PAIRS
    pairs = expected_pairs(speedup, drift) if speedup and with_further else deciding
    return PROOF_MARGIN * (_speed_pairs(deciding, pairs, metric) * pair_seconds + metric.seconds)


def likely_speed_seconds(
    pair_seconds: float, speedup: float, metric: MetricTime = NO_METRIC, drift: float = 0.0
) -> float:
    """Return how long the pairs of a proof are likely to take that only tell the speed; see `proof_seconds`.

    A proof that is likely to be given up should still have the time for all of its pairs, but will not take it.
    """
    pairs = likely_pairs(speedup, drift)
    return _speed_pairs(min(deciding_pairs(speedup, drift), pairs), pairs, metric) * pair_seconds


def _speed_pairs(deciding: int, pairs: int, metric: MetricTime) -> int:
    """Return how many pairs only tell the speed, of those that decide on it and of all."""
    return max(0 if metric.at_once else deciding, pairs - metric.training_pairs)


class ProofCosts:
    """What proofs take in this run, by how their metric is judged."""

    def __init__(self, run: TuningRun, judge: MetricJudge) -> None:
        """Go by what this judge plans."""
        self._run = run
        self._judge = judge

    def seconds(
        self,
        plan: MetricPlan | None,
        change: Change,
        speedup: float | None,
        with_further: bool = True,
        resumed: bool = False,
    ) -> float:
        """Return what a proof takes whose metric is judged by this plan, if it must be; see `proof_seconds`.

        With `resumed`, in a further part of the run.
        """
        pair_seconds = self._judge.pair_seconds(change, speedup)
        metric = self._metric_time(plan, change, speedup, resumed)
        return proof_seconds(pair_seconds, speedup, metric, with_further, self._run.drift)

    def likely(self, plan: MetricPlan | None, change: Change, speedup: float) -> tuple[float, float]:
        """Return what a proof is likely to take for the speed, and beside that for the metric; see `seconds`."""
        metric = self._metric_time(plan, change, speedup)
        pair_seconds = self._judge.pair_seconds(change, speedup)
        return likely_speed_seconds(pair_seconds, speedup, metric, self._run.drift), metric.seconds

    def _metric_time(
        self, plan: MetricPlan | None, change: Change, speedup: float | None, resumed: bool = False
    ) -> MetricTime:
        if plan is None:
            return NO_METRIC
        return MetricTime(self._judge.seconds(plan, change, speedup, resumed), plan.training_pairs, plan.at_once)

    def least(self, change: Change, speedup: float | None) -> float:
        """Return what a proof takes at least if the metric is judged by what fits in what is left.

        Infinite if nothing fits.
        """
        plan = self._judge.plan(change, speedup, self._run.clock.left)
        if plan is not None and not plan.fits:
            return math.inf
        return self.seconds(plan, change, speedup, with_further=False)

    def rest(self, plan: MetricPlan | None, change: Change, speedup: float, spent_seconds: float = 0.0) -> float:
        """Return what the rest of a proof takes, at least the budget by which its trainings exceed their share."""
        judge = self._judge
        seconds = self.seconds(plan, change, speedup, resumed=True)
        rest = max(judge.pair_seconds(change, speedup), seconds - spent_seconds)
        more = judge.budget_seconds(plan, change, speedup) - self._run.clock.spent if plan else 0.0
        return max(rest, more)

    def missing(
        self, candidate: Candidate, proof: Proof, metric: MetricProof | None, spent_seconds: float
    ) -> tuple[float, MetricPlan | None]:
        """Return what the rest of a proof is expected to take, infinite if no larger budget would do.

        And by what the metric would be judged; None if it need not be.
        """
        change, speedup, judge = candidate.change, math.exp(candidate.log_speedup), self._judge
        if proof.result not in OPEN or proof.obstacle == "speed settles":
            return math.inf, None
        if proof.result == "incomplete" or metric is None:
            plan = metric.plan if metric else None
            return self.rest(plan, change, speedup, spent_seconds), plan
        judged_by_runs = metric.trained > 1
        if judged_by_runs and math.isfinite(metric.missing_pairs):
            pair_seconds = judge.seconds(metric.plan, change, speedup) / metric.plan.pairs
            return metric.missing_pairs * pair_seconds, metric.plan
        if metric.plan.evidence == "whole":
            return math.inf, metric.plan
        plan = judge.planned_runs() if judged_by_runs else judge.min_share()
        return self.rest(plan, change, speedup), plan
