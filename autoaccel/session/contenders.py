"""Contenders: the best settings that a search finds, proven one after the other until one holds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from autoaccel.records.conclusion import (
    KeptBecause,
    LeftOpen,
    NothingBetter,
    NothingToWin,
    NotWorthProving,
    NotWorthTrying,
    Refused,
    TooDisturbed,
    TooSmall,
)
from autoaccel.records.contender import OPEN, ContenderResult, ProofReason
from autoaccel.records.messages import Failure
from autoaccel.records.progress import Note, StageName, StageStarted
from autoaccel.records.recipe import OpenProof
from autoaccel.records.settings import Settings
from autoaccel.report.conclusions import elsewhere_words, further_search_words, proof_start_words, refused_words
from autoaccel.search.loop import Reserve, Search
from autoaccel.search.ranking import Contender
from autoaccel.search.starts import start_of
from autoaccel.session.best import Best, FirstProven, keep_baseline, proven
from autoaccel.session.breaking_down import break_down_proven
from autoaccel.session.concluding import keep
from autoaccel.session.contest import Contest
from autoaccel.session.contributions import Breakdown
from autoaccel.session.judging import MetricJudge
from autoaccel.session.least_run import LARGE_SPEEDUP
from autoaccel.session.metric import MetricProof
from autoaccel.session.plan import BUDGET_MARGIN, EXPLAINING_SHARE, PROOF_MARGIN, expected_continuation
from autoaccel.session.proof import Proof, Prover
from autoaccel.session.proof_time import ProofCosts
from autoaccel.session.proving import Attempt, Open
from autoaccel.session.resuming import Earlier
from autoaccel.session.setup import SearchResult, Setup
from autoaccel.session.sharing import proof_elsewhere
from autoaccel.session.starting import start_search
from autoaccel.space.knobs import compiles
from autoaccel.statistics.comparison import PROCESS_DEVIATION
from autoaccel.statistics.deciding import chance_of_proof, provable_log, rule_for
from autoaccel.statistics.disturbance import TOO_DISTURBED
from autoaccel.statistics.runs import CompileSeconds

_MEASURED_ANEW: tuple[StageName, ...] = ("hardware", "baseline")  # by each part of a resumed run

_EVEN = 0.5  # chance of a proof below which it is its size that keeps what was found from one


def not_worth_trying(setup: Setup) -> NotWorthTrying:
    """Return that all trainings together are too short for anything that is tried to repay its time."""
    return NotWorthTrying(setup.baseline.total_seconds, setup.run.request.options.trainings)


def search_and_prove(setup: Setup) -> SearchResult | None:
    """Search, prove the best settings, or the next best if that fails, and return the result.

    None if another of the study's workers proves them.
    """
    baseline = setup.baseline
    if not setup.can_win:
        why = NothingToWin(setup.facts.planned_steps, baseline.overhead_seconds, baseline.total_seconds)
        return SearchResult(tuple(setup.run.folder.load_trials()), keep_baseline(baseline, why), "nothing to win")
    if not setup.may_pay:
        return SearchResult((), keep_baseline(baseline, not_worth_trying(setup)), "nothing pays")
    search = start_search(setup)
    proving = _Proving(setup, search)
    won = proving.contest.run()
    if won is None or (won.attempt is None and proving.is_elsewhere(None)):
        return None
    best = proving.end_with(won.attempt, won.breakdown) if won.attempt else proving.keep_baseline()
    return SearchResult(tuple(search.trials), best, search.stop)


class _Proving:
    """What proves the settings that a search has found."""

    def __init__(self, setup: Setup, search: Search) -> None:
        """Begin with nothing proven in this part of the run."""
        run, baseline = setup.run, setup.baseline
        self._setup = setup
        self._run = run
        self._baseline = baseline
        self._search = search
        self._judge = MetricJudge(run, baseline, search.knowledge.extra_start_seconds)
        self._costs = ProofCosts(run, self._judge)
        self._earlier = Earlier(run.folder.load_contenders(), run.folder.load_pairs("proof"))
        self._prover = Prover(baseline.pairs(self._earlier.pairs), setup.facts, run.clock, run.tell)
        self._refused: Refused | None = None  # the last contender
        self._kept: Settings | None = None  # in a recipe that is written already,
        self._first: FirstProven | None = None
        self.contest = Contest(search, self, run.clock)
        self.contest.take_over(self._earlier)

    def is_elsewhere(self, best: Settings | None) -> bool:
        """Whether another worker of the study proves the best, or has; then that is told."""
        study = self._setup.study
        elsewhere = proof_elsewhere(study, best) if study else None
        if elsewhere:
            self._run.tell(Note(elsewhere_words(elsewhere, len(self._search.trials))))
        return elsewhere is not None

    def reserve(self, settings: Settings, speedup: float | None) -> float:
        """Return what of the budget must be left to prove settings; see `Search.run`."""
        change = self._search.task.change(settings)
        plan = self._judge.plan(change, speedup)
        if plan is not None and not plan.fits:
            return math.inf  # whatever they win, nothing could show that they keep the metric
        needed = self._costs.seconds(plan, change, speedup)
        return self._run.stages.held_back(needed, len(self._search.trials))

    def likely_seconds(self, settings: Settings, speedup: float | None = None) -> float:
        """Return what the proof of settings is likely to take; see `Proving.likely_seconds`."""
        change = self._search.task.change(settings)
        plan = self._judge.plan(change, speedup or LARGE_SPEEDUP)
        if plan is not None and not plan.fits:
            return math.inf
        return sum(self._costs.likely(plan, change, speedup or LARGE_SPEEDUP))

    @property
    def drift(self) -> float:
        """Of log speed-ups from hour to hour, for which a proof leaves room."""
        return self._run.drift

    def extend_search(self) -> None:
        """Let the search exceed its share of the budget, as nothing it has found is worth a proof; tell it."""
        run, plan = self._run, self._run.stages.current
        run.stages.extend_search()
        self._expect_longer_search(plan.proof if plan else 0.0)
        run.tell(Note("nothing is worth a proof yet: the search continues with what a proof does not need"))

    def needed(self, settings: Settings, speedup: float | None) -> float:
        """Return what the proof of settings takes at least if the metric is judged by what fits in what is left."""
        return self._costs.least(self._search.task.change(settings), speedup)

    def prove(self, contender: Contender, number: int, why: ProofReason) -> Attempt | None:
        """Return what pairs of processes say of the n-th contender; None if another worker proves it."""
        if self.is_elsewhere(contender.settings):
            return None
        run, settings, search = self._run, contender.settings, self._search
        self._baseline.rest()  # whose memory the proof may need
        metric = self._begin_metric(contender, number)
        run.tell(StageStarted("confirm", proof_start_words(why, len(search.trials))))
        began = run.clock.spent

        def keep_early(proof: Proof, further_pairs: int) -> None:
            pair_seconds = self._judge.pair_seconds(contender.change, math.exp(contender.log_speedup))
            run.stages.expect_more("confirm", further_pairs * pair_seconds, run.clock.spent)
            if self._kept is None:
                self.keep(Attempt(contender, proof, run.clock.spent - began))

        rule = rule_for(number, search.knowledge.min_speedup(settings), drift=run.drift)
        known = self._judge.known(contender.change)
        clearer_seconds = EXPLAINING_SHARE * search.task.economy.saved_seconds(contender.total_seconds)
        proof = self._prover.prove(settings, rule, metric, keep_early, known, clearer_seconds)
        run.folder.add_contender(ContenderResult(settings, number, proof.result))
        if self._setup.study and proof.result not in OPEN:
            self._setup.study.peers.show_judged(settings)
        spent = run.clock.spent - began
        missing = self._costs.missing(contender, proof, metric, spent)
        return Attempt(contender, proof, spent, *missing, self._judge.beyond_updates(contender.change))

    def _begin_metric(self, contender: Contender, number: int) -> MetricProof | None:
        """Return what is to show whether a contender keeps the metric; None if nothing need be shown."""
        stages, change, speedup = self._run.stages, contender.change, math.exp(contender.log_speedup)
        metric = self._judge.begin(change, speedup, number, self._earlier)
        speed_seconds, metric_seconds = self._costs.likely(metric.plan if metric else None, change, speedup)
        stages.expect("confirm", speed_seconds)
        stages.expect("metric", metric_seconds)
        return metric

    def refused(self, attempt: Attempt, search_continues: bool) -> None:
        """Keep why a contender was not proven, and tell."""
        run, search, proof = self._run, self._search, attempt.proof
        run.folder.save_trials(search.trials)
        if attempt.contender.settings == self._kept:  # further pairs did not confirm it
            run.folder.withdraw()
            self._kept = self._first = None
        self._refused = Refused(
            settings=attempt.contender.settings,
            result=proof.result,
            comparison=proof.comparison,
            accuracy=proof.accuracy,
            obstacle=proof.obstacle,
            trials=len(search.trials),
        )
        run.tell(Note(refused_words(self._refused, self._setup.baseline_settings)))
        if search_continues:
            run.tell(StageStarted("search", "continuing without it"))

    def continue_search(self, settings: Settings) -> None:
        """Plan what the search takes that continues with these settings: it leaves what their proof needs."""
        self._expect_longer_search(self.reserve(settings, None))

    def _expect_longer_search(self, reserved_seconds: float) -> None:
        """Plan what a search takes that continues, and leaves these seconds of the budget."""
        stages, now, most_seconds = self._run.stages, self._run.clock.spent, self._run.clock.left - reserved_seconds
        trial_seconds = self._search.knowledge.trial_seconds
        expected = expected_continuation(stages.spent("search", now), trial_seconds, most_seconds)
        stages.expect_more("search", expected, now)

    def spare_seconds(self, attempt: Attempt) -> float:
        """Return the seconds that are left beside what is planned for the contributions."""
        return self._run.clock.left - self._contributions_seconds

    def begin_further_search(self, attempt: Attempt, settings: Settings) -> None:
        """Tell that something better than what was proven is looked for, with these settings first."""
        run, comparison = self._run, attempt.proof.comparison
        assert comparison is not None  # nothing is proven without
        self._expect_longer_search(self.reserve_beside(attempt)(settings, None))
        run.tell(StageStarted("search", further_search_words(comparison)))

    def reserve_beside(self, attempt: Attempt) -> Reserve:
        """Return what tells what must be left to prove something better than what was proven, and its contributions."""
        held = attempt.contender.settings

        def reserve(settings: Settings, speedup: float | None) -> float:
            needed = 0.0 if settings == held else self.needed(settings, speedup)
            return self._contributions_seconds + needed

        return reserve

    @property
    def _contributions_seconds(self) -> float:
        plan = self._run.stages.current
        return plan.seconds["contributions"] if plan else 0.0

    def break_down(self, attempt: Attempt) -> Breakdown:
        """Return what each setting contributes to settings that were proven, as far as the budget allows to tell."""
        return break_down_proven(self._setup, self._search, attempt.contender.change, attempt.proof)

    def missing(self, contender: Contender) -> Open:
        """Return a contender that there is no time left to prove, with what its proof takes.

        If the run is resumed, this proof comes first.
        """
        settings, number = contender.settings, self.contest.number_of(contender.settings)
        self._run.folder.add_contender(ContenderResult(settings, number, "incomplete"))
        return self._not_begun(contender)

    def keep(self, attempt: Attempt) -> None:
        """Write a recipe of what was proven, and tell that it is there."""
        run, search, settings = self._run, self._search, attempt.contender.settings
        self._first = self._first or FirstProven(attempt.proof.proven_after_seconds, run.clock.spent)
        keep(self._setup, SearchResult(tuple(search.trials), self._best_of(attempt), search.stop))
        if settings != self._kept:
            run.tell(Note(f"proven and saved in {run.folder.recipe}, where it stays if you stop the run now"))
        self._kept = settings

    def end_with(self, attempt: Attempt, breakdown: Breakdown) -> Best:
        """Return what was proven."""
        search, proof = self._search, attempt.proof
        search.judge(attempt.contender.settings, proof.accuracy, "holds", proof.comparison)
        self._run.folder.save_trials(search.trials)
        return replace(
            self._best_of(attempt),
            contributions=breakdown.contributions,
            interaction=breakdown.interaction,
            left_open=self._left_open(self.contest.open, attempt.contender.total_seconds),
        )

    def _best_of(self, attempt: Attempt) -> Best:
        """Return what was proven, with nothing known yet of what its settings contribute."""
        settings = attempt.contender.settings
        best = proven(settings, attempt.proof, _slower_starts(self._setup, self._search, settings))
        return replace(best, first=self._first)

    def keep_baseline(self) -> Best:
        """Return the user's own settings, where nothing was proven."""
        kept = keep_baseline(self._baseline, self._why_kept())
        return replace(kept, left_open=self._left_open([*self.contest.open, *self._left_over()]))

    def _why_kept(self) -> KeptBecause:
        search = self._search
        if (disturbed_share := self._baseline.disturbed_share) > TOO_DISTURBED:
            return TooDisturbed(disturbed_share)
        if self._refused is not None:
            return self._refused
        if search.best is not None:
            return self._why_not_proven()
        if not search.trials:
            return not_worth_trying(self._setup)
        return NothingBetter(
            trials=len(search.trials),
            infeasible=sum(not trial.feasible for trial in search.trials),
            failed=sum(isinstance(trial.outcome, Failure) for trial in search.trials),
        )

    def _why_not_proven(self) -> KeptBecause:
        """Return why the best that was found was not even begun to be proven."""
        speedup = self._search.fastest_speedup
        if chance_of_proof(speedup, self._run.drift) < _EVEN:
            return TooSmall(speedup, math.exp(provable_log(self._run.drift) + PROCESS_DEVIATION))
        return NotWorthProving(self._search.saving_seconds, self._run.request.options.trainings)

    def _left_over(self) -> list[Open]:
        """Return what is worth a proof but had no time for one, if anything is."""
        contender = self.contest.left_over()
        return [] if contender is None else [self._not_begun(contender)]

    def _not_begun(self, contender: Contender) -> Open:
        change, speedup = contender.change, math.exp(contender.log_speedup)
        plan = self._judge.plan(change, speedup)
        return Open(contender, "incomplete", self._costs.rest(plan, change, speedup), plan)

    def _left_open(self, left: Sequence[Open], total_seconds: float = math.inf) -> LeftOpen | None:
        """Return the best of what is left open, if its run is expected to be shorter than this."""
        better = [one for one in left if one.contender.total_seconds < total_seconds]
        better = [one for one in better if math.isfinite(one.missing_seconds)]
        if not better:
            return None
        best = min(better, key=lambda one: one.contender.total_seconds)
        run, judge, speedup = self._run, self._judge, math.exp(best.contender.log_speedup)
        # The next part of the run looks at the machine and measures the baseline again, and needs the least proof.
        again = sum(run.stages.spent(stage, run.clock.spent) for stage in _MEASURED_ANEW)
        least = BUDGET_MARGIN * run.stages.current.min_proof if run.stages.current else 0.0
        proof = OpenProof(best.contender.settings, PROOF_MARGIN * again + max(best.missing_seconds, least))
        whole_seconds = None
        if best.result != "incomplete" and best.by is not None and best.by.evidence == "share":
            whole_seconds = judge.budget_seconds(judge.planned_runs(), best.contender.change, speedup)
        return LeftOpen(proof, speedup, best.by, whole_seconds)


def _slower_starts(setup: Setup, search: Search, settings: Settings) -> tuple[CompileSeconds, CompileSeconds]:
    """Return what slower first steps cost under these settings, and under the user's own.

    The processes of the proof found compiled what the first with their settings had left, as later runs will.
    """
    baseline = start_of(setup.baseline_settings, setup.baseline.measurement)
    pairs = [pair for pair in setup.run.folder.load_pairs("proof") if pair.settings == settings]
    for pair in pairs:
        search.knowledge.learn_warm_start(settings, pair.recipe.compile_seconds)
    if pairs and compiles(setup.baseline_settings):
        warm = statistics.median(pair.baseline.compile_seconds for pair in pairs)
        baseline = CompileSeconds(baseline.cold, min(baseline.cold, warm))
    return search.knowledge.compile_seconds(settings), baseline
