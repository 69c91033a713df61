"""The proof loop: search, prove the best settings, or the next best if they are refused, and what is better still."""

from __future__ import annotations

import math
from collections.abc import Callable

from autoaccel.proof.contributions import Breakdown
from autoaccel.proof.course import Proof
from autoaccel.proof.metric import MetricProof
from autoaccel.records.conclusion import Refused
from autoaccel.records.contender import JUDGEMENTS, OPEN, ContenderResult, ProofReason
from autoaccel.records.progress import Note, StageStarted
from autoaccel.records.settings import Settings, settings_key
from autoaccel.report.conclusions import elsewhere_words, further_search_words, proof_start_words, refused_words
from autoaccel.runs.plan import expected_continuation
from autoaccel.runs.sharing import proof_elsewhere
from autoaccel.search.ranking import Candidate
from autoaccel.session.breaking_down import break_down_proven
from autoaccel.session.candidates import (
    Attempt,
    ProofState,
    add_parts,
    begin_proofs,
    is_first,
    next_candidate,
    not_begun,
    number_of,
    rival_of,
    without_harmful,
    worth_proving,
)
from autoaccel.session.limits import MAX_CANDIDATES
from autoaccel.session.proof_results import keep_recipe, left_alone, own_settings_result, proven_result
from autoaccel.session.setup import SearchResult, Setup
from autoaccel.session.starting import start_search
from autoaccel.statistics.deciding import rule_for


def search_and_prove(setup: Setup) -> SearchResult | None:
    """Search, prove the best settings, or the next best if that fails, and return the result.

    What an earlier part of the run left open is proven before anything else is looked for. None if another of the
    study's workers proves.
    """
    if (untouched := left_alone(setup)) is not None:
        return untouched
    search = start_search(setup)
    state = begin_proofs(setup, search)
    if not state.resumed:
        _search(state)
    while (candidate := next_candidate(state) or _of_longer_search(state)) is not None:
        attempt = _prove(state, candidate, search.stop)
        if attempt is None:
            return None
        if attempt.proof.result == "proven":
            # Whatever is proven beside it claims something, too, and shares the error.
            number = state.numbers.setdefault(settings_key(candidate.settings), state.number)
            state.number = max(state.number, number + 1)
            keep_recipe(state, attempt)
            return proven_result(state, *_without_harm(state, _better(state, attempt)))
        _refuse(state, attempt)
        if attempt.proof.result != "incomplete":  # if only time was missing, none is left for another search
            _search_on(state)
    return None if _is_elsewhere(state, None) else own_settings_result(state)


def _search(state: ProofState, begin: Callable[[Settings], None] | None = None) -> None:
    """Search as long as that pays, and leave what proofs need; see `Search.run`."""
    state.search.run(state.budget.reserved_seconds, begin, state.budget.proofs())


def _of_longer_search(state: ProofState) -> Candidate | None:
    """Search beyond the search's share of the budget if that has found nothing; return what to prove then, if any."""
    run, search = state.setup.run, state.search
    if search.stop != "out of time" or not is_first(state) or worth_proving(state):
        return None
    run.stages.extend_search()
    _expect_longer_search(state, run.stages.current.proof if run.stages.current else 0.0)
    run.tell(Note("nothing is worth a proof yet: the search continues with what a proof does not need"))
    _search(state)
    return next_candidate(state)


def _search_on(state: ProofState) -> None:
    """Search without what was refused."""

    def begin(settings: Settings) -> None:
        _expect_longer_search(state, state.budget.reserved_seconds(settings, None))

    state.setup.run.tell(StageStarted("search", "continuing without it"))
    _search(state, begin)


def _expect_longer_search(state: ProofState, left_seconds: float) -> None:
    """Plan what a search takes that continues, and leaves these seconds of the budget."""
    run, trial_seconds = state.setup.run, state.search.knowledge.trial_seconds
    spent_seconds = run.stages.spent("search", run.clock.spent)
    expected = expected_continuation(spent_seconds, trial_seconds, run.clock.left - left_seconds)
    run.stages.expect_more("search", expected, run.clock.spent)


def _prove(state: ProofState, candidate: Candidate, why: ProofReason) -> Attempt | None:
    """Return what pairs of processes say of a candidate; None if another worker proves it."""
    settings, change, search, judge = candidate.settings, candidate.change, state.search, state.judge
    if _is_elsewhere(state, settings):
        return None
    run, study, number = state.setup.run, state.setup.study, number_of(state, settings)
    metric = _begin_metric(state, candidate, number)
    run.tell(StageStarted("confirm", proof_start_words(why, len(search.trials))))
    began = run.clock.spent

    def keep_early(proof: Proof, further_pairs: int) -> None:
        pair_seconds = judge.pair_seconds(change, math.exp(candidate.log_speedup))
        run.stages.expect_more("confirm", further_pairs * pair_seconds, run.clock.spent)
        if state.kept is None:
            keep_recipe(state, Attempt(candidate, proof, run.clock.spent - began))

    rule = rule_for(number, search.knowledge.min_speedup(settings), drift=run.drift)
    clearer_seconds = state.budget.explaining_seconds(candidate)
    is_spared = state.budget.is_spared(change)
    proof = state.prover.prove(settings, rule, metric, keep_early, judge.known(change), clearer_seconds, is_spared)
    run.folder.add_contender(ContenderResult(settings, number, proof.result))
    if metric is not None:
        judge.learn(metric)
    if study and proof.result not in OPEN:
        study.peers.show_judged(settings)
    spent_seconds = run.clock.spent - began
    missing = state.budget.missing(candidate, proof, metric, spent_seconds)
    return Attempt(candidate, proof, spent_seconds, *missing, judge.beyond_updates(change))


def _begin_metric(state: ProofState, candidate: Candidate, number: int) -> MetricProof | None:
    """Return what is to show whether a candidate keeps the metric; None if nothing need be shown."""
    stages, change, speedup = state.setup.run.stages, candidate.change, math.exp(candidate.log_speedup)
    metric = state.judge.begin(change, speedup, number, state.earlier)
    speed_seconds, metric_seconds = state.budget.likely_parts(metric.plan if metric else None, change, speedup)
    stages.expect("confirm", speed_seconds)
    stages.expect("metric", metric_seconds)
    return metric


def _is_elsewhere(state: ProofState, best: Settings | None) -> bool:
    """Whether another worker of the study proves the best, or has; then that is told."""
    study = state.setup.study
    elsewhere = proof_elsewhere(study, best) if study else None
    if elsewhere:
        state.setup.run.tell(Note(elsewhere_words(elsewhere, len(state.search.trials))))
    return elsewhere is not None


def _refuse(state: ProofState, attempt: Attempt) -> None:
    """Take in that a candidate was not proven, and tell; the search learns of it.

    If its changes of numbers are to blame, it may be proven without them. A metric that scatters too much to tell does
    so whatever changes the numbers: nothing as risky is tried any more, unless updates can tell of what is left without
    some settings.
    """
    run, search, candidate, proof = state.setup.run, state.search, attempt.candidate, attempt.proof
    settings, risk = candidate.settings, candidate.change.risk
    if proof.failure is not None:
        state.failed += 1
        search.fail(settings, proof.failure, attempt.spent_seconds)
    else:
        search.judge(settings, proof.accuracy, JUDGEMENTS[proof.result], proof.comparison)
    if proof.result in OPEN:
        state.open.append(attempt)
    if proof.result == "metric unclear" and attempt.beyond_updates and risk != "changes_training":
        search.outcomes.leave_out_each({name: settings[name] for name in attempt.beyond_updates})
    elif proof.result == "metric unclear":
        search.outcomes.leave_out(risk)
    if proof.result != "not faster":
        add_parts(state, candidate.change)
    if proof.failure is None and settings_key(settings) not in state.numbers:
        state.numbers[settings_key(settings)] = state.number
        state.number += 1
    run.folder.save_trials(search.trials)
    if settings == state.kept:  # further pairs did not confirm it
        run.folder.withdraw()
        state.kept = state.first = None
    state.refused = Refused(
        settings=settings,
        result=proof.result,
        comparison=proof.comparison,
        accuracy=proof.accuracy,
        obstacle=proof.obstacle,
        trials=len(search.trials),
    )
    run.tell(Note(refused_words(state.refused, state.setup.baseline_settings)))


def _better(state: ProofState, attempt: Attempt) -> Attempt:
    """Return what was proven, or what proves better in the time that is left over.

    That is what was less sure to be proven, and came later for that. Where the search ended for want of time it goes
    on: its share is small, so that something is proven early, and where trials take a minute, most of what it would
    have tried is untried, and what the proof has left of its own share suffices for a few.
    """
    run, search, held = state.setup.run, state.search, attempt.candidate.settings
    number = number_of(state, held)
    if number >= MAX_CANDIDATES:
        return attempt
    state.number = max(state.number, number + 1)
    proof_seconds = max(attempt.spent_seconds, state.budget.needed_seconds(attempt.candidate.change, None))
    spare_seconds = run.clock.left - run.stages.in_plan("contributions")
    if search.stop == "out of time" and spare_seconds >= proof_seconds + search.knowledge.trial_seconds:
        search.knowledge.read_pairs(held, attempt.proof.pairs)
        _search_beside(state, attempt)
    rival = rival_of(state, attempt)
    further = _prove(state, rival, "better than what is proven") if rival else None
    if further is None:
        return attempt
    if further.proof.result != "proven":
        _refuse(state, further)
        return attempt
    state.number = max(state.number, number_of(state, further.candidate.settings) + 1)
    was, now = (
        search.knowledge.total_seconds(one.candidate.settings, one.proof.log_speedup) for one in (attempt, further)
    )
    if was < now:  # of a whole run
        return attempt
    keep_recipe(state, further)
    return further


def _search_beside(state: ProofState, attempt: Attempt) -> None:
    """Search for something better than what was proven, and leave what it takes to prove it."""
    run, held, comparison = state.setup.run, attempt.candidate.settings, attempt.proof.comparison
    assert comparison is not None  # nothing is proven without

    def reserve(settings: Settings, speedup: float | None) -> float:
        if settings == held:
            # What is proven is not tried again: its pairs told more than another trial would.
            return math.inf if speedup is None else run.stages.in_plan("contributions")
        needed = state.budget.needed_seconds(state.search.task.change(settings), speedup)
        return run.stages.in_plan("contributions") + needed

    def begin(settings: Settings) -> None:
        _expect_longer_search(state, reserve(settings, None))
        run.tell(StageStarted("search", further_search_words(comparison)))

    state.search.run(reserve, begin, state.budget.proofs(held))


def _without_harm(state: ProofState, attempt: Attempt) -> tuple[Attempt, Breakdown]:
    """Return what was proven, or what remains of it without the settings that make it slower, once that is proven.

    And what each setting of it contributes. What was proven stays if the rest is not proven, or is clearly slower. Each
    proof leaves out a setting at least. Where there is no time for it, it is left open if the settings make it slower
    beyond doubt.
    """
    breakdown = break_down_proven(state, attempt)
    while (rest := without_harmful(state, attempt, breakdown)) is not None:
        number = number_of(state, rest.settings)
        if number > MAX_CANDIDATES or not state.budget.fits(rest):
            if any(one.high < 1 for one in breakdown.harmful):
                # If the run is resumed, this proof comes first.
                state.setup.run.folder.add_contender(ContenderResult(rest.settings, number, "incomplete"))
                state.open.append(not_begun(state, rest))
            break
        further = _prove(state, rest, "without what slows it down")
        if further is None:
            break
        if further.proof.result != "proven":
            _refuse(state, further)
            break
        state.number = max(state.number, number + 1)
        if further.proof.is_clearly_slower_than(attempt.proof):
            break
        keep_recipe(state, further)
        attempt, breakdown = further, break_down_proven(state, further)
    return attempt, breakdown
