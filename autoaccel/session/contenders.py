"""Contenders: the best settings that a search finds, proven one after the other until one holds."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from autoaccel.records.contender import ContenderResult
from autoaccel.records.machine import Machine
from autoaccel.records.progress import Note, StageStarted
from autoaccel.records.settings import Settings, changed
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement
from autoaccel.search.ranking import Contender
from autoaccel.search.starts import start_of
from autoaccel.session.contest import Contest
from autoaccel.session.contributions import Breakdown, break_down
from autoaccel.session.ending import (
    Ending,
    keep_own,
    not_worth_proving,
    nothing_better,
    proven,
    too_disturbed,
    why_not,
    with_contributions,
    with_open_proof,
)
from autoaccel.session.evidence import MetricPlan
from autoaccel.session.metric import MetricJudge, MetricProof
from autoaccel.session.pairs import FreshPairs
from autoaccel.session.plan import METRIC_SHARE
from autoaccel.session.proof import Proof, Prover, proof_seconds
from autoaccel.session.resuming import OPEN, Earlier, ResumedPairs
from autoaccel.session.run import Run
from autoaccel.session.searching import Search
from autoaccel.session.sharing import proof_elsewhere
from autoaccel.session.yardstick import Yardstick
from autoaccel.space.knobs import compiles
from autoaccel.statistics.comparison import SHARED_DRIFT
from autoaccel.statistics.disturbance import TOO_DISTURBED
from autoaccel.statistics.runs import CompileSeconds

if TYPE_CHECKING:
    from autoaccel.search.shared import SharedStudy

PROOF_LEFT_OPEN = "an earlier part of it had left a proof open"
"""Why a search was not gone on with."""


def search_and_prove(
    run: Run,
    machine: Machine,
    yardstick: Yardstick,
    search: Search,
    space: SearchSpace,
    judge: MetricJudge,
    study: SharedStudy | None,
) -> tuple[Ending, str] | None:
    """Search, and prove the best; if that fails, what is best then. Return what it comes to and why the search ended.

    None if another of the study's workers proves it.
    """
    proving = _Proving(run, machine, yardstick, search, space, judge)
    # A proof that was left open is gone on with before anything else is looked for.
    goes_on, ended = not proving.take_over(), PROOF_LEFT_OPEN
    while True:
        if goes_on:
            ended = search.run(proving.reserve)
        contender = proving.contest.next()
        chosen = contender.settings if contender else None
        if study and (elsewhere := proof_elsewhere(study, chosen, len(search.trials))):
            run.tell(Note(elsewhere))
            return None
        if contender is None:
            return proving.keep_own(), ended
        proof = proving.prove(contender, ended)
        if study and proof.outcome not in OPEN:
            study.show_judged(contender.settings)
        if proof.outcome == "proven":
            return proving.end_with(contender, proof), ended
        goes_on = proving.refuse(contender, proof)


class _Proving:
    """What proves the settings that a search has found."""

    def __init__(
        self,
        run: Run,
        machine: Machine,
        yardstick: Yardstick,
        search: Search,
        space: SearchSpace,
        judge: MetricJudge,
    ) -> None:
        self._run = run
        self._machine = machine
        self._yardstick = yardstick
        self._search = search
        self._space = space
        self._judge = judge
        own, steps_per_epoch = yardstick.settings, yardstick.facts.steps_per_epoch
        plan, scatter = yardstick.plan, yardstick.scatter
        usual, apart = yardstick.usual_seconds, yardstick.is_apart
        fresh = FreshPairs(run, own, steps_per_epoch, plan, usual, apart=apart, scatter=scatter)
        self._earlier = Earlier(run.folder.load_contenders(), run.folder.load_pairs("proof"))
        self._pairs = ResumedPairs(fresh, self._earlier.pairs)
        self._prover = Prover(run, yardstick.facts, self._pairs)
        self._refused = ""  # why the last contender was not proven
        self._began = 0.0  # its proof, in seconds since the start of the run
        self._metric: MetricProof | None = None  # its own
        self.contest = Contest(search, space, own, self._needed, run.clock)

    def take_over(self) -> bool:
        """Go on from the proofs of an earlier part of the run; return whether one of them is open."""
        return self.contest.take_over(self._earlier)

    def reserve(self, settings: Settings, speedup: float | None) -> float:
        """Return what of the budget must be left to prove settings; see `Search.run`."""
        plan = self._judge.plan(settings, speedup)
        if plan is not None and not plan.fits:
            return math.inf  # whatever they win, nothing could show that they keep the metric
        needed = self._proof_seconds(plan, speedup)
        return self._run.stages.held_back(needed, len(self._search.trials))

    def _proof_seconds(self, plan: MetricPlan | None, speedup: float | None) -> float:
        """Return what a proof takes whose metric is judged like this; None: it need not be."""
        repeats, yardstick = self._run.request.metric_repeats, self._yardstick
        if plan is None or plan.evidence == "rounding":
            updates_seconds = self._judge.seconds(plan, speedup) if plan else 0.0
            return proof_seconds(None, repeats, yardstick, speedup) + updates_seconds
        return proof_seconds(plan.steps, repeats, yardstick, speedup)

    def _needed(self, settings: Settings, speedup: float | None) -> float:
        """Return what the proof of settings takes if the metric is judged by what fits in the rest of the budget."""
        speed_seconds = self._proof_seconds(None, speedup)
        plan = self._judge.plan(settings, speedup, self._run.clock.left - speed_seconds)
        if plan is None:
            return speed_seconds
        return speed_seconds + self._judge.seconds(plan, speedup) if plan.fits else math.inf

    def prove(self, contender: Contender, ended: str) -> Proof:
        """Return what pairs of processes say of a contender; `ended` is why the search did."""
        run, settings, speedup = self._run, contender.settings, math.exp(contender.log_speedup)
        self._yardstick.rest()  # whose memory the proof may need
        number, least_speedup = self.contest.number_of(settings), self._search.least_speedup(settings)
        speed_seconds = self._proof_seconds(None, speedup)
        steps = self._earlier.trained_steps(settings)
        metric = self._judge.begin(settings, speedup, number, run.clock.left - speed_seconds, steps)
        run.stages.expect("confirm", speed_seconds)
        run.stages.expect("metric", self._judge.seconds(metric.plan, speedup) if metric else 0.0)
        run.tell(StageStarted("confirm", f"the best against your own settings, in fresh processes ({ended})"))
        self._began, self._metric = run.clock.spent, metric
        proof = self._prover.prove(settings, number, metric, least_speedup)
        run.folder.add_contender(ContenderResult(settings, number, proof.outcome))
        return proof

    def refuse(self, contender: Contender, proof: Proof) -> bool:
        """Keep why a contender was not proven, and tell; return whether the search goes on."""
        run, search = self._run, self._search
        spent = run.clock.spent - self._began
        goes_on = self.contest.refuse(contender, proof, spent, self._missing_seconds(contender, proof, spent))
        run.folder.save_trials(search.trials)
        self._refused = why_not(proof, contender.settings, self._yardstick.settings, len(search.trials))
        run.tell(Note(self._refused.replace("Your own settings stay: ", "")))
        if goes_on:
            run.tell(StageStarted("search", "going on without it"))
        return goes_on

    def end_with(self, contender: Contender, proof: Proof) -> Ending:
        """Return the ending with what was proven."""
        search, settings, own = self._search, contender.settings, self._yardstick.settings
        search.judge(settings, proof.accuracy, "holds")
        self._run.folder.save_trials(search.trials)
        drift = SHARED_DRIFT if self._machine.cpu.is_virtual else 0.0
        starts = _slower_starts(self._run, self._yardstick, search, settings)
        ending = proven(proof, settings, own, *starts, drift)
        breakdown = _break_down(self._run, self._yardstick, search, self._space, settings, proof)
        return self._with_open_proof(with_contributions(ending, breakdown), contender.total_seconds)

    def keep_own(self) -> Ending:
        """Return the ending of a run in which nothing was proven."""
        search, yardstick = self._search, self._yardstick
        disturbed_share = max(yardstick.disturbed_share, self._pairs.disturbed_share)
        if disturbed_share > TOO_DISTURBED:
            summary = too_disturbed(disturbed_share)
        elif self._refused or search.best is None:
            summary = self._refused or nothing_better(search.trials)
        else:
            summary = not_worth_proving(search.saving_seconds, self._run.request.runs)
        return self._with_open_proof(keep_own(yardstick, summary), math.inf)

    def _missing_seconds(self, contender: Contender, proof: Proof, spent_seconds: float) -> float:
        """Return what the rest of a proof is expected to take; infinite if no larger budget would complete it."""
        speedup = math.exp(contender.log_speedup)
        pair_seconds, plan = self._yardstick.pair_seconds(speedup), self._metric.plan if self._metric else None
        if proof.outcome != "metric unclear" or self._metric is None or plan is None:
            return max(pair_seconds, self._proof_seconds(plan, speedup) - spent_seconds)
        if plan.evidence == "rounding" and plan.fits:
            plan = self._judge.least_share()  # updates have left it open
        training_seconds = self._judge.seconds(plan, speedup) / plan.pairs
        if not plan.fits:
            # Trainings get no more than their share of a budget.
            budget_seconds = plan.pairs * training_seconds / METRIC_SHARE
            return max(self._proof_seconds(plan, speedup), budget_seconds - self._run.clock.spent)
        return self._metric.missing_pairs * training_seconds

    def _with_open_proof(self, ending: Ending, total_seconds: float) -> Ending:
        """Return the ending with the best of what is left open, if its run is expected to be shorter than this."""
        better = [left for left in self.contest.open if left.contender.total_seconds < total_seconds]
        better = [left for left in better if math.isfinite(left.missing_seconds)]
        if not better:
            return ending
        best = min(better, key=lambda left: left.contender.total_seconds)
        # The next part of the run measures the baseline anew, and must have time for the least proof.
        again = 2 * self._yardstick.ready_seconds + self._yardstick.trial_seconds
        plan = self._run.stages.current
        return with_open_proof(
            ending, best.contender.settings, again + max(best.missing_seconds, plan.least_proof if plan else 0.0)
        )


def _slower_starts(
    run: Run, yardstick: Yardstick, search: Search, settings: Settings
) -> tuple[CompileSeconds, CompileSeconds]:
    """Return what slower first steps cost under these settings, and under the user's own.

    The processes of the proof found compiled what the first with their settings had left, as later runs will.
    """
    own = start_of(yardstick.settings, yardstick.measurement)
    pairs = [pair for pair in run.folder.load_pairs("proof") if pair.settings == settings]
    for pair in pairs:
        search.learn_warm_start(settings, pair.recipe.compile_seconds)
    if pairs and compiles(yardstick.settings):
        warm = statistics.median(pair.baseline.compile_seconds for pair in pairs)
        own = CompileSeconds(own.cold, min(own.cold, warm))
    return search.compile_seconds(settings), own


def _break_down(
    run: Run, yardstick: Yardstick, search: Search, space: SearchSpace, chosen: Settings, proof: Proof
) -> Breakdown:
    """Return what each of the proven settings contributes, as far as the rest of the budget allows to tell."""
    assert proof.comparison is not None  # nothing is proven without
    count = len(changed(chosen, yardstick.settings))
    if count > 1:
        run.tell(StageStarted("contributions", f"what each of the {count} settings contributes"))
    usual = _batch_factor(search, chosen) * proof.own_step_seconds / proof.comparison.speedup
    steps_per_epoch = yardstick.facts.steps_per_epoch
    return break_down(
        chosen=chosen,
        own=yardstick.settings,
        space=space,
        whole=proof.comparison,
        pairs=FreshPairs(
            run,
            chosen,
            steps_per_epoch,
            yardstick.plan,
            usual,
            purpose="contributions",
            apart=yardstick.is_apart,
            scatter=yardstick.scatter,
        ),
        believer=search,
        clock=run.clock,
        budget_seconds=run.request.budget_seconds,
        pair_seconds=yardstick.pair_seconds(),
    )


def _batch_factor(search: Search, chosen: Settings) -> float:
    """Return the samples of a step under some settings, over those of the user's own.

    Settings without a trial are a part of others that leaves the batch as it is.
    """
    measured = [trial.outcome for trial in search.trials if trial.settings == chosen]
    return next((found.batch_factor for found in measured if isinstance(found, Measurement)), 1.0)
