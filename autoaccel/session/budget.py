"""Budget: what the rest of a run's time allows for, and whether a proof pays: the rule by which each is begun."""

from __future__ import annotations

import math

from autoaccel.bench.bench import Bench
from autoaccel.proof.course import Proof
from autoaccel.proof.judging import MetricJudge
from autoaccel.proof.metric import MetricProof
from autoaccel.proof.proof_time import NO_METRIC, MetricTime, likely_speed_seconds, proof_seconds
from autoaccel.records.contender import OPEN
from autoaccel.records.evidence import MetricPlan
from autoaccel.records.settings import Settings
from autoaccel.runs.limits import EXPLAINING_SHARE, LARGE_SPEEDUP
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.search.gradient import Proofs
from autoaccel.search.loop import Search
from autoaccel.search.ranking import Candidate
from autoaccel.space.change import Change
from autoaccel.statistics.deciding import chance_of_proof, provable_log
from autoaccel.statistics.spared import may_be_spared


class Budget:
    """What is left of a run's time, what proofs take of it, and what they save over all announced trainings."""

    def __init__(self, run: TuningRun, search: Search, judge: MetricJudge, baseline: Bench) -> None:
        """Begin with what a search knows.

        Args:
            run: Whose clock it is.
            search: Knows how fast settings are, and what has failed.
            judge: Knows by which evidence a metric is judged, and what that takes.
            baseline: The user's own settings, measured.
        """
        self._run = run
        self._search = search
        self._judge = judge
        self._baseline = baseline

    def pays(self, candidate: Candidate, instead_of: Candidate | None = None) -> bool:
        """Return whether a proof is expected to save more than it takes, by how likely it is to come to its end.

        Args:
            candidate: To be proven.
            instead_of: What is proven already: then what the candidate saves beyond that counts. Of an image pipeline
                whose runs take 24 s the proof without a setting of 0.99x took 100 s.
        """
        # Where the machine does not drift, what is faster than something proven is likely to be proven faster, too.
        is_speed_in_doubt = instead_of is None or self._run.drift > 0
        chance = self.chance_of_all(candidate) if is_speed_in_doubt else self.chance(candidate)
        more = self.saved_seconds(candidate) - (self.saved_seconds(instead_of) if instead_of is not None else 0.0)
        return chance * more > self.likely_seconds(candidate.change, math.exp(candidate.log_speedup))

    def is_spared(self, change: Change) -> bool:
        """Return whether what a change spares the operating system is evidence of how fast it is.

        That is so where it changes nothing else, steps are made by the CPU, and the system takes enough of one to tell.
        """
        if not change.spares_system or self._baseline.facts.device != "cpu":
            return False
        return may_be_spared(self._baseline.measurement.turns, self._search.knowledge.min_speedup(change.settings))

    def _drift(self, change: Change) -> float:
        """Return for which drift from hour to hour a proof is expected to have room."""
        return 0.0 if self.is_spared(change) else self._run.drift

    def fits(self, candidate: Candidate) -> bool:
        """Return whether there is time to prove a candidate."""
        return self.needed_seconds(candidate.change, math.exp(candidate.log_speedup)) <= self._run.clock.left

    def chance(self, candidate: Candidate) -> float:
        """Return the probability that a candidate does not fail in its proof, and that its evidence decides."""
        evidence = self._judge.chance(candidate.change, math.exp(candidate.log_speedup))
        return self._search.outcomes.chance(candidate.settings) * evidence

    def chance_of_all(self, candidate: Candidate) -> float:
        """Return the probability that a candidate is proven: its speed as well."""
        of_speed = chance_of_proof(math.exp(candidate.log_speedup), self._drift(candidate.change))
        return self.chance(candidate) * of_speed

    def saved_seconds(self, candidate: Candidate) -> float:
        """Return what a candidate is expected to save over all trainings."""
        return self._search.task.economy.saved_seconds(candidate.total_seconds)

    def explaining_seconds(self, candidate: Candidate) -> float:
        """Return what may be spent on telling more of what is proven, which makes nothing faster."""
        return EXPLAINING_SHARE * self.saved_seconds(candidate)

    def likely_seconds(self, change: Change, speedup: float = LARGE_SPEEDUP) -> float:
        """Return what a proof is likely to take, by evidence that costs less than the change saves.

        Infinite if there is none.
        """
        plan = self._judge.plan(change, speedup)
        if plan is not None and not plan.fits:
            return math.inf
        return sum(self.likely_parts(plan, change, speedup))

    def likely_parts(self, plan: MetricPlan | None, change: Change, speedup: float) -> tuple[float, float]:
        """Return what a proof is likely to take for the speed, and beside that for the metric, judged by this plan."""
        metric = self._metric_time(plan, change, speedup)
        pair_seconds = self._judge.pair_seconds(change, speedup)
        return likely_speed_seconds(pair_seconds, speedup, metric, self._drift(change)), metric.seconds

    def needed_seconds(self, change: Change, speedup: float | None) -> float:
        """Return what a proof takes at least if the metric is judged by what fits in what is left.

        Infinite if nothing fits.

        Args:
            change: To be proven.
            speedup: Of its steps; None if it is not known.
        """
        plan = self._judge.plan(change, speedup, self._run.clock.left)
        if plan is not None and not plan.fits:
            return math.inf
        return self._seconds(plan, change, speedup, with_further=False)

    def reserved_seconds(self, settings: Settings, speedup: float | None) -> float:
        """Return what of the budget a trial must leave to prove its settings; see `Search.run`."""
        change = self._search.task.change(settings)
        plan = self._judge.plan(change, speedup)
        if plan is not None and not plan.fits:
            return math.inf  # whatever they win, nothing could show that they keep the metric
        needed = self._seconds(plan, change, speedup)
        return self._run.stages.held_back(needed, len(self._search.trials))

    def proofs(self, held: Settings | None = None) -> Proofs:
        """Return what proofs take, for the search; that of what is held is made, and needs no other."""

        def seconds(settings: Settings, log_speedup: float) -> float:
            if settings == held:
                return 0.0
            # To a hundredth, so that few different ones are computed.
            return self.likely_seconds(self._search.task.change(settings), math.exp(round(log_speedup, 2)))

        def chance(settings: Settings) -> float:
            return 1.0 if settings == held else self._judge.chance(self._search.task.change(settings), LARGE_SPEEDUP)

        def least_log(settings: Settings) -> float:
            return least_logs[self._drift(self._search.task.change(settings))]

        least_logs = {drift: provable_log(drift) for drift in (0.0, self._run.drift)}
        return Proofs(seconds, least_log, chance)

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
            return self._rest(plan, change, speedup, spent_seconds), plan
        judged_by_runs = metric.trained > 1
        if judged_by_runs and math.isfinite(metric.missing_pairs):
            pair_seconds = judge.seconds(metric.plan, change, speedup) / metric.plan.pairs
            return metric.missing_pairs * pair_seconds, metric.plan
        if metric.plan.evidence == "whole":
            return math.inf, metric.plan
        plan = judge.planned_runs() if judged_by_runs else judge.min_share()
        return self._rest(plan, change, speedup), plan

    def missing_of_all(self, candidate: Candidate) -> tuple[float, MetricPlan | None]:
        """Return the same of a proof that there is no time to begin."""
        change, speedup = candidate.change, math.exp(candidate.log_speedup)
        plan = self._judge.plan(change, speedup)
        return self._rest(plan, change, speedup), plan

    def _rest(self, plan: MetricPlan | None, change: Change, speedup: float, spent_seconds: float = 0.0) -> float:
        """Return what the rest of a proof takes, at least the budget by which its trainings exceed their share."""
        judge = self._judge
        seconds = self._seconds(plan, change, speedup, resumed=True)
        rest = max(judge.pair_seconds(change, speedup), seconds - spent_seconds)
        more = judge.budget_seconds(plan, change, speedup) - self._run.clock.spent if plan else 0.0
        return max(rest, more)

    def _seconds(
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
        return proof_seconds(pair_seconds, speedup, metric, with_further, self._drift(change))

    def _metric_time(
        self, plan: MetricPlan | None, change: Change, speedup: float | None, resumed: bool = False
    ) -> MetricTime:
        if plan is None:
            return NO_METRIC
        return MetricTime(self._judge.seconds(plan, change, speedup, resumed), plan.training_pairs, plan.at_once)
