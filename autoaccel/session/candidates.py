"""Candidates: which settings are proven next, and what came of others."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from autoaccel.proof.contributions import Breakdown
from autoaccel.proof.course import Proof
from autoaccel.proof.earlier import Earlier
from autoaccel.proof.judging import MetricJudge
from autoaccel.proof.limits import SURE
from autoaccel.proof.proof import Prover
from autoaccel.records.conclusion import Refused
from autoaccel.records.evidence import MetricPlan
from autoaccel.records.settings import Settings, settings_key
from autoaccel.search.loop import Search
from autoaccel.search.ranking import Candidate
from autoaccel.session.best import FirstProven
from autoaccel.session.budget import Budget
from autoaccel.session.limits import MAX_CANDIDATES
from autoaccel.session.setup import Setup
from autoaccel.space.change import Change
from autoaccel.space.knobs import RISKS


class Attempt(NamedTuple):
    """A candidate's proof, or that there was no time to begin it, and what it took."""

    candidate: Candidate
    proof: Proof
    spent_seconds: float
    missing_seconds: float = math.inf  # that the rest of an open one is expected to take; infinite: no budget would do
    by: MetricPlan | None = None  # what would show whether the metric is kept; None if nothing need be shown
    beyond_updates: tuple[str, ...] = ()  # settings but for which updates could show that; none where runs alone could


@dataclass
class ProofState:
    """What all proofs of a run go by, and what has come of them so far."""

    setup: Setup
    search: Search  # knows the trials
    judge: MetricJudge
    budget: Budget  # knows what pays
    prover: Prover
    earlier: Earlier  # what an earlier part of the run has found,
    resumed: list[Settings]  # what it left open and is not resumed yet,
    numbers: dict[str, int]  # and by their keys, which candidates settings were; those that are refused are added
    number: int  # of the next candidate, from 1; those that failed do not count, as no speed was judged
    failed: int = 0  # how many candidates failed
    parts: list[Settings] = field(default_factory=list)  # of settings that could not be proven
    open: list[Attempt] = field(default_factory=list)  # that more time could complete
    refused: Refused | None = None  # the last candidate that was not proven
    kept: Settings | None = None  # in a recipe that is written already,
    first: FirstProven | None = None  # and when the first of a run was


def begin_proofs(setup: Setup, search: Search) -> ProofState:
    """Return that nothing is proven in this part of the run; the search learns what an earlier part has refuted."""
    run = setup.run
    judge = MetricJudge(run, setup.baseline, search.knowledge.extra_start_seconds)
    earlier = Earlier(run.folder.load_contenders(), run.folder.load_pairs("proof"))
    for settings in earlier.refuted:
        search.judge(settings, None, "slower")
    return ProofState(
        setup=setup,
        search=search,
        judge=judge,
        budget=Budget(run, search, judge, setup.baseline),
        prover=Prover(setup.baseline.compare, setup.facts, run.clock, run.tell),
        earlier=earlier,
        resumed=list(earlier.open),
        numbers=earlier.numbers,
        number=max(earlier.numbers.values(), default=0) + 1,
    )


def number_of(state: ProofState, settings: Settings) -> int:
    """Return which candidate some settings are, or would be if they came next: it decides on their share of error."""
    return state.numbers.get(settings_key(settings), state.number)


def next_candidate(state: ProofState) -> Candidate | None:
    """Return what to prove next; None if nothing is left that is worth its proof and for which there is time.

    Before anything else was tried the best is proven even if time seems too short for it and for each of its parts: it
    may take less, and what is measured is not lost. The last candidate changes no number if such a one is left, so that
    the run ends with something that is proven. What an earlier part of the run left open comes first.
    """
    search = state.search
    while state.resumed:
        settings = state.resumed.pop(0)
        for one in search.ranking.candidates([settings]):
            if one.settings == settings:
                return one
    _add_surer_parts(state)
    worth = worth_proving(state)
    fitting = [one for one in worth if state.budget.fits(one)]
    if worth and not fitting:
        add_parts(state, worth[0].change)
        fitting = [one for one in worth_proving(state) if state.budget.fits(one)]
    if _is_over(state):
        return None
    exact = [one for one in fitting if one.change.risk == "exact"] if state.number == MAX_CANDIDATES else []
    left = exact or fitting or (worth if is_first(state) else [])
    # A proof may fail, or decide nothing: first comes what is expected to save most for all that. Where the machine
    # drifts, this holds of the speed as well: most of what is a little faster is not shown to be.
    chance = state.budget.chance_of_all if state.setup.run.drift else state.budget.chance
    chances = [chance(one) for one in left]
    hoped = [likely * state.budget.saved_seconds(one) for likely, one in zip(chances, left, strict=True)]
    least = chances[hoped.index(max(hoped))] if left else 0.0
    return search.ranking.first([one for one, likely in zip(left, chances, strict=True) if likely >= least])


def left_over(state: ProofState) -> Candidate | None:
    """Return the best of what is worth a proof, once there is no time for any; None if there is nothing."""
    return None if _is_over(state) else state.search.ranking.first(worth_proving(state))


def is_first(state: ProofState) -> bool:
    """Return whether no candidate was proven or refused yet."""
    return state.number == 1 and not state.failed


def _is_over(state: ProofState) -> bool:
    """Whether as many candidates were tried to be proven as a run may try."""
    return state.number > MAX_CANDIDATES or state.failed > MAX_CANDIDATES


def worth_proving(state: ProofState) -> list[Candidate]:
    """Return what is expected to save more time than its proof takes, the fastest first."""
    return [one for one in state.search.ranking.candidates(state.parts) if state.budget.pays(one)]


def add_parts(state: ProofState, change: Change) -> None:
    """Let what changes no number in a change, and what only rounds differently, be candidates as well."""
    for most in RISKS[: RISKS.index(change.risk)]:
        part = change.at_most(most)
        if part is not None and part.names and part.settings not in state.parts:
            state.parts.append(part.settings)


def _add_surer_parts(state: ProofState) -> None:
    """Let what needs no runs in a change be candidates as well, where its runs may decide nothing.

    That is what updates can tell of it, and what changes no number. And what spares the system something, where that
    tells how fast it is at least: the rest may be too little to be proven on a machine that drifts.
    """
    for one in state.search.ranking.candidates():
        change = one.change
        sparing = change.sparing
        if not change.spares_system and state.budget.is_spared(sparing):
            _add_part(state, sparing)
        if state.judge.chance(change, math.exp(one.log_speedup)) < SURE:
            add_parts(state, change)
            _add_part(state, change.without(*state.judge.beyond_updates(change)))


def _add_part(state: ProofState, part: Change) -> None:
    """Let a part of a change be a candidate as well."""
    if part.settings not in state.parts and part.space.allows(part.settings):
        state.parts.append(part.settings)


def rival_of(state: ProofState, attempt: Attempt) -> Candidate | None:
    """Return what should rather have been proven, by what is known now, if there is time to prove it.

    A difference that is noise is none, and it must save more time than its proof takes.
    """
    ranking, held = state.search.ranking, attempt.candidate.settings
    proven = next((one for one in ranking.candidates([held]) if one.settings == held), None)
    others = [one for one in worth_proving(state) if one.settings != held and state.budget.fits(one)]
    first = None if proven is None else ranking.first([proven, *others])
    if proven is None or first is None or first is proven:
        return None
    return first if state.budget.pays(first, instead_of=proven) else None


def without_harmful(state: ProofState, attempt: Attempt, breakdown: Breakdown) -> Candidate | None:
    """Return proven settings without those that make them slower; None if that is not worth another proof.

    A setting makes them slower if the middle of its measured contribution says so: of settings that cannot be told
    apart, the fewer are better. What a person has asked for stays.
    """
    search, change, log_speedup = state.search, attempt.candidate.change, attempt.candidate.log_speedup
    harmful = [one for one in breakdown.harmful if one.setting in change.space.open]
    rest = change.without(*(one.setting for one in harmful)).settings
    if not harmful or rest == change.own or not change.space.allows(rest) or search.knowledge.is_ruled_out(rest):
        return None
    gain = sum(math.log(one.speedup) for one in harmful)
    found = search.ranking.candidate(rest, log_speedup - gain)
    return found if state.budget.pays(found, instead_of=attempt.candidate) else None


def not_begun(state: ProofState, candidate: Candidate) -> Attempt:
    """Return that there is no time left to prove a candidate, with what its proof takes."""
    return Attempt(candidate, Proof("incomplete", [], None, None), 0.0, *state.budget.missing_of_all(candidate))
