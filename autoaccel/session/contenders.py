"""Contenders: the best settings that a search finds, proven one after the other until one holds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from autoaccel.records.contender import ContenderResult
from autoaccel.records.machine import Machine
from autoaccel.records.progress import Note, StageName, StageStarted
from autoaccel.records.recipe import OpenProof
from autoaccel.records.settings import Settings, changed
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement
from autoaccel.search.ranking import Contender
from autoaccel.search.starts import start_of
from autoaccel.session.contest import Contest, Open
from autoaccel.session.contributions import Breakdown, break_down
from autoaccel.session.ending import (
    Ending,
    keep_own,
    not_worth_proving,
    nothing_better,
    open_proof_words,
    proven,
    too_disturbed,
    why_not,
    with_contributions,
    with_open_proof,
)
from autoaccel.session.evidence import MetricPlan
from autoaccel.session.judging import MetricJudge
from autoaccel.session.metric import MetricProof
from autoaccel.session.pairs import FreshPairs
from autoaccel.session.plan import PROOF_MARGIN
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

_MEASURED_ANEW: tuple[StageName, ...] = ("hardware", "baseline")  # by each part of a run that is gone on with

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

    def _proof_seconds(self, plan: MetricPlan | None, speedup: float | None, confirms: bool = True) -> float:
        """Return what a proof takes whose metric is judged like this; None: it need not be. See `proof_seconds`."""
        if plan is None:
            return proof_seconds(self._yardstick, speedup, confirms=confirms)
        metric_seconds = self._judge.seconds(plan, speedup)
        return proof_seconds(
            self._yardstick, speedup, metric_seconds, plan.training_pairs, plan.at_once, confirms=confirms
        )

    def _needed(self, settings: Settings, speedup: float | None) -> float:
        """Return what the proof of settings takes at least if the metric is judged by what fits in what is left."""
        plan = self._judge.plan(settings, speedup, self._run.clock.left)
        if plan is not None and not plan.fits:
            return math.inf
        return self._proof_seconds(plan, speedup, confirms=False)

    def prove(self, contender: Contender, ended: str) -> Proof:
        """Return what pairs of processes say of a contender; `ended` is why the search did."""
        run, settings, speedup = self._run, contender.settings, math.exp(contender.log_speedup)
        self._yardstick.rest()  # whose memory the proof may need
        number, least_speedup = self.contest.number_of(settings), self._search.least_speedup(settings)
        earlier, by_updates = self._earlier.pairs_of(settings), not self._earlier.differed_by_updates(settings)
        metric = self._judge.begin(settings, speedup, number, earlier, by_updates)
        metric_seconds = self._judge.seconds(metric.plan, speedup) if metric else 0.0
        needed = self._proof_seconds(metric.plan if metric else None, speedup)
        run.stages.expect("confirm", needed - PROOF_MARGIN * metric_seconds)
        run.stages.expect("metric", metric_seconds)
        run.tell(StageStarted("confirm", f"the best against your own settings, in fresh processes ({ended})"))
        self._began, self._metric = run.clock.spent, metric
        proof = self._prover.prove(settings, number, metric, least_speedup)
        run.folder.add_contender(ContenderResult(settings, number, proof.outcome))
        return proof

    def refuse(self, contender: Contender, proof: Proof) -> bool:
        """Keep why a contender was not proven, and tell; return whether the search goes on."""
        run, search = self._run, self._search
        spent = run.clock.spent - self._began
        goes_on = self.contest.refuse(contender, proof, spent, *self._missing(contender, proof, spent))
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
        return self._with_open_proof(with_contributions(ending, breakdown), self.contest.open, contender.total_seconds)

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
        return self._with_open_proof(keep_own(yardstick, summary), [*self.contest.open, *self._left_over()])

    def _missing(self, contender: Contender, proof: Proof, spent_seconds: float) -> tuple[float, MetricPlan | None]:
        """Return what the rest of a proof is expected to take, infinite if no larger budget would do.

        And by what the metric would be judged; None if it need not be.
        """
        speedup, metric, judge = math.exp(contender.log_speedup), self._metric, self._judge
        if proof.outcome not in OPEN:
            return math.inf, None
        if proof.outcome == "incomplete" or metric is None:
            plan = metric.plan if metric else None
            return self._rest_seconds(plan, speedup, spent_seconds), plan
        judged_by_runs = metric.trained > 1
        if judged_by_runs and math.isfinite(metric.missing_pairs):
            return metric.missing_pairs * judge.seconds(metric.plan, speedup) / metric.plan.pairs, metric.plan
        if metric.plan.evidence == "whole":
            return math.inf, metric.plan
        plan = judge.planned_runs() if judged_by_runs else judge.least_share()
        return self._rest_seconds(plan, speedup), plan

    def _rest_seconds(self, plan: MetricPlan | None, speedup: float, spent_seconds: float = 0.0) -> float:
        """Return what a proof takes for which so much was spent, and that leaves trainings their share of a budget."""
        rest = max(self._yardstick.pair_seconds(speedup), self._proof_seconds(plan, speedup) - spent_seconds)
        more = self._judge.budget_seconds(plan, speedup) - self._run.clock.spent if plan else 0.0
        return max(rest, more)

    def _left_over(self) -> list[Open]:
        """Return what is worth a proof for which there was no time, if there is something."""
        contender = self.contest.left_over()
        if contender is None:
            return []
        speedup = math.exp(contender.log_speedup)
        plan = self._judge.plan(contender.settings, speedup)
        return [Open(contender, "incomplete", self._rest_seconds(plan, speedup), plan)]

    def _with_open_proof(self, ending: Ending, left: Sequence[Open], total_seconds: float = math.inf) -> Ending:
        """Return the ending with the best of what is left open, if its run is expected to be shorter than this."""
        better = [one for one in left if one.contender.total_seconds < total_seconds]
        better = [one for one in better if math.isfinite(one.missing_seconds)]
        if not better:
            return ending
        best = min(better, key=lambda one: one.contender.total_seconds)
        run, judge, speedup = self._run, self._judge, math.exp(best.contender.log_speedup)
        # The next part of the run looks at the machine and measures the baseline anew, and needs the least proof.
        again = sum(run.stages.spent(stage, run.clock.spent) for stage in _MEASURED_ANEW)
        least = run.stages.current.least_proof if run.stages.current else 0.0
        left_open = OpenProof(best.contender.settings, PROOF_MARGIN * again + max(best.missing_seconds, least))
        whole_seconds = None
        if best.outcome != "incomplete" and best.by is not None and best.by.evidence == "share":
            whole_seconds = judge.budget_seconds(judge.planned_runs(), speedup)
        words = open_proof_words(left_open, self._yardstick.settings, speedup, best.by, whole_seconds)
        return with_open_proof(ending, left_open, words)


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
