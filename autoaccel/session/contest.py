"""Contest: a search's best settings, proven one after the other until one holds, and what is better still."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

from autoaccel.records.contender import JUDGEMENTS, OPEN
from autoaccel.records.settings import Settings, settings_key
from autoaccel.search.gradient import Proofs
from autoaccel.search.loop import Search
from autoaccel.search.ranking import Contender
from autoaccel.search.trial_source import Clock
from autoaccel.session.contributions import Breakdown
from autoaccel.session.proof import Proof
from autoaccel.session.proving import Attempt, Open, Proving
from autoaccel.session.resuming import Earlier
from autoaccel.space.change import Change
from autoaccel.space.knobs import RISKS
from autoaccel.statistics.deciding import chance_of_proof, provable_log

MAX_CONTENDERS = 3  # settings that are tried to be proven in one run


class Won(NamedTuple):
    """How a contest ended."""

    attempt: Attempt | None  # that proved a contender; None if none was proven
    breakdown: Breakdown = Breakdown()  # of what was proven


class Contest:
    """Knows which settings may still be proven, and has them proven."""

    def __init__(self, search: Search, proving: Proving, clock: Clock) -> None:
        """Begin with nothing proven.

        Args:
            search: Knows the trials.
            proving: Makes the proofs.
            clock: Knows the budget.
        """
        self._search = search
        self._economy = search.task.economy
        self._proving = proving
        self._clock = clock
        self._parts: list[Settings] = []  # of settings that could not be proven
        self._failed = 0
        self._number = 1
        self._numbers: dict[str, int] = {}  # of settings that an earlier part of the run began to prove
        self._resumed: list[Settings] = []
        self.open: list[Open] = []

    def take_over(self, earlier: Earlier) -> bool:
        """Resume from the proofs of an earlier part of the run; return whether one of them is open."""
        for settings in earlier.refuted:
            self._search.judge(settings, None, "slower")
        self._numbers = earlier.numbers
        self._number = max(self._numbers.values(), default=0) + 1
        self._resumed = list(earlier.open)
        return bool(self._resumed)

    def number_of(self, settings: Settings) -> int:
        """Return which contender some settings are, from 1; those that failed do not count, as no speed was judged."""
        return self._numbers.get(settings_key(settings), self._number)

    def next(self) -> Contender | None:
        """Return what to prove next; None if nothing is left that is worth its proof and for which there is time.

        Before anything else was tried the best is proven even if time seems too short for it and for each of its parts:
        it may take less, and what is measured is not lost. The last contender changes no number if such a one is left,
        so that the run ends with something that is proven. What an earlier part of the run left open comes first.
        """
        while self._resumed:
            settings = self._resumed.pop(0)
            for one in self._search.ranking.contenders([settings]):
                if one.settings == settings:
                    return one
        worth = self.worth_proving()
        fitting = [one for one in worth if self._fits(one)]
        if worth and not fitting:
            self._add_parts(worth[0].change)
            fitting = [one for one in self.worth_proving() if self._fits(one)]
        if self._number > MAX_CONTENDERS or self._failed > MAX_CONTENDERS:
            return None
        exact = [one for one in fitting if one.change.risk == "exact"] if self._number == MAX_CONTENDERS else []
        left = exact or fitting or (worth if self._is_first else [])
        # What failed in proofs may fail again: first comes what is expected to save most for all that.
        chances = [self._search.outcomes.chance(one.settings) for one in left]
        hoped = [
            chance * self._economy.saved_seconds(one.total_seconds) for chance, one in zip(chances, left, strict=True)
        ]
        least = chances[hoped.index(max(hoped))] if left else 0.0
        return self._search.ranking.first([one for one, chance in zip(left, chances, strict=True) if chance >= least])

    @property
    def _is_first(self) -> bool:
        """Whether no contender was proven or refused yet."""
        return self._number == 1 and not self._failed

    def left_over(self) -> Contender | None:
        """Return the best of what is worth a proof, once there is no time for any; None if there is nothing."""
        is_over = self._number > MAX_CONTENDERS or self._failed > MAX_CONTENDERS
        return None if is_over else self._search.ranking.first(self.worth_proving())

    def worth_proving(self) -> list[Contender]:
        """Return what is expected to save more time than its proof takes, the fastest first."""
        return [one for one in self._search.ranking.contenders(self._parts) if self._pays(one)]

    def _pays(self, one: Contender) -> bool:
        """Whether a proof is expected to save more than it takes, by how likely it is that it comes to its end."""
        speedup = math.exp(one.log_speedup)
        chance = self._search.outcomes.chance(one.settings) * chance_of_proof(speedup, self._proving.drift)
        saved = chance * self._economy.saved_seconds(one.total_seconds)
        return saved > self._proving.likely_seconds(one.settings, speedup)

    @property
    def _proofs(self) -> Proofs:
        """What proofs take, for the search."""
        return Proofs(self._proving.likely_seconds, provable_log(self._proving.drift))

    def _seconds_beside(self, held: Settings, settings: Settings) -> float:
        """Return what a proof takes beside settings that are proven already, which need no other."""
        return 0.0 if settings == held else self._proving.likely_seconds(settings)

    def run(self) -> Won | None:
        """Search and prove the best, and if that fails the next, until one holds; None if a proof was left to others.

        What an earlier part of the run left open is proven before anything else is looked for.
        """
        search = self._search
        searches = not self._resumed
        begin: Callable[[Settings], None] | None = None  # the plan knows what a search takes when it begins
        while True:
            if searches:
                search.run(self._proving.reserve, begin, self._proofs)
            contender = self.next()
            if contender is None and search.stop == "out of time" and self._is_first and not self.worth_proving():
                self._proving.extend_search()
                search.run(self._proving.reserve, proofs=self._proofs)
                contender = self.next()
            if contender is None:
                return Won(None)
            attempt = self._proving.prove(contender, self.number_of(contender.settings), search.stop)
            if attempt is None:
                return None
            if attempt.proof.result == "proven":
                self._proving.keep(attempt)
                return self._without_harm(self._bettered(attempt))
            searches, begin = self.refuse(attempt), self._proving.continue_search
            self._proving.refused(attempt, searches)

    def _bettered(self, attempt: Attempt) -> Attempt:
        """Return what was proven, or what proves better in the time that is left over.

        Only where the search ended for want of time. Its share is small, so that something is proven early: where
        trials take a minute, most of what it would have tried is untried, and what the proof has left of its own share
        suffices for a few.
        """
        held = attempt.contender.settings
        number = self.number_of(held)
        proof_seconds = max(attempt.spent_seconds, self._proving.needed(held, None))
        if (
            self._search.stop != "out of time"
            or number >= MAX_CONTENDERS
            or self._proving.spare_seconds(attempt) < proof_seconds + self._search.knowledge.trial_seconds
        ):
            return attempt
        self._number = max(self._number, number + 1)
        trials = len(self._search.trials)
        self._search.knowledge.read_pairs(held, attempt.proof.pairs)
        reserve = self._proving.reserve_beside(attempt)

        def reserve_for_others(settings: Settings, speedup: float | None) -> float:
            # What is proven is not tried again: its pairs told more than another trial would.
            return math.inf if settings == held and speedup is None else reserve(settings, speedup)

        seconds_for_others = functools.partial(self._seconds_beside, held)
        proofs = self._proofs._replace(seconds=seconds_for_others)
        self._search.run(reserve_for_others, functools.partial(self._proving.begin_further_search, attempt), proofs)
        rival = self._rival(attempt) if len(self._search.trials) > trials else None
        if rival is None:
            return attempt
        number = self.number_of(rival.settings)
        further = self._proving.prove(rival, number, "better than what is proven")
        if further is None:
            return attempt
        if further.proof.result != "proven":
            self.refuse(further)
            self._proving.refused(further, search_continues=False)
            return attempt
        self._number = max(self._number, number + 1)
        better = min(further, attempt, key=self._run_seconds)
        if better is further:
            self._proving.keep(further)
        return better

    def _rival(self, attempt: Attempt) -> Contender | None:
        """Return what should rather have been proven, by what is known now, if there is time to prove it.

        A difference that is noise is none, and it must save more time than its proof takes.
        """
        held = attempt.contender.settings
        proven = next((one for one in self._search.ranking.contenders() if one.settings == held), None)
        others = [one for one in self.worth_proving() if one.settings != held and self._fits(one)]
        first = None if proven is None else self._search.ranking.first([proven, *others])
        if proven is None or first is None or first is proven:
            return None
        saved = self._economy.saved_seconds(first.total_seconds) - self._economy.saved_seconds(proven.total_seconds)
        return first if saved > self._proving.likely_seconds(first.settings, math.exp(first.log_speedup)) else None

    def _run_seconds(self, attempt: Attempt) -> float:
        """Return how long a run is expected to take under settings that were proven."""
        assert attempt.proof.comparison is not None  # nothing is proven without
        log_speedup = math.log(attempt.proof.comparison.speedup)
        return self._search.knowledge.total_seconds(attempt.contender.settings, log_speedup)

    def _without_harm(self, attempt: Attempt) -> Won:
        """Return what was proven, or what remains of it without the settings that make it slower, once that is proven.

        What was proven stays if the rest is not proven, or is clearly slower. Each proof leaves out a setting at least.
        Where there is no time for it, it is left open if the settings make it slower beyond doubt.
        """
        breakdown = self._proving.break_down(attempt)
        while (rest := self._rest(attempt, breakdown)) is not None:
            number = self.number_of(rest.settings)
            if number > MAX_CONTENDERS or not self._fits(rest):
                if any(one.high < 1 for one in breakdown.harmful):
                    self.open.append(self._proving.missing(rest))
                break
            further = self._proving.prove(rest, number, "without what slows it down")
            if further is None:
                break
            if further.proof.result != "proven":
                self.refuse(further)
                self._proving.refused(further, search_continues=False)
                break
            self._number = max(self._number, number + 1)
            if _is_clearly_slower(further.proof, attempt.proof):
                break
            self._proving.keep(further)
            attempt, breakdown = further, self._proving.break_down(further)
        return Won(attempt, breakdown)

    def _rest(self, attempt: Attempt, breakdown: Breakdown) -> Contender | None:
        """Return proven settings without those that make them slower; None if that is not worth another proof.

        A setting makes them slower if the middle of its measured contribution says so: of settings that cannot be told
        apart, the fewer are better. What a person has asked for stays.
        """
        change, log_speedup = attempt.contender.change, attempt.contender.log_speedup
        harmful = [one for one in breakdown.harmful if one.setting in change.space.open]
        rest = change.without(*(one.setting for one in harmful)).settings
        if (
            not harmful
            or rest == change.own
            or not change.space.allows(rest)
            or self._search.knowledge.is_ruled_out(rest)
        ):
            return None
        gain = sum(math.log(one.speedup) for one in harmful)
        found = self._search.ranking.contender(rest, log_speedup - gain)
        return found if self._is_worth_another_proof(found, attempt.contender) else None

    def _is_worth_another_proof(self, rest: Contender, proven: Contender) -> bool:
        """Whether to prove what remains of proven settings without some that make them slower.

        It must save more time than its proof takes: of an image pipeline whose runs take 24 s the proof without a
        setting of 0.99x took 100 s.
        """
        saved = self._economy.saved_seconds(rest.total_seconds) - self._economy.saved_seconds(proven.total_seconds)
        return saved > self._proving.likely_seconds(rest.settings, math.exp(rest.log_speedup))

    def refuse(self, attempt: Attempt) -> bool:
        """Take in that a contender was not proven; return whether to search on before the next is proven.

        If its changes of numbers are to blame, it may be proven without them. A metric that scatters too much to tell
        does so whatever changes the numbers: nothing as risky is tried any more, unless updates can tell of what is
        left without some settings. If only time was missing, none is left for another search.
        """
        contender, proof = attempt.contender, attempt.proof
        beyond = attempt.beyond_updates if contender.change.risk != "changes_training" else ()
        if proof.failure is not None:
            self._failed += 1
            self._search.fail(contender.settings, proof.failure, attempt.spent_seconds)
        else:
            self._search.judge(contender.settings, proof.accuracy, JUDGEMENTS[proof.result], proof.comparison)
        if proof.result in OPEN:
            self.open.append(Open(contender, proof.result, attempt.missing_seconds, attempt.by))
        if proof.result == "metric unclear" and beyond:
            self._search.outcomes.leave_out_each({name: contender.settings[name] for name in beyond})
        elif proof.result == "metric unclear":
            self._search.outcomes.leave_out(contender.change.risk)
        if proof.result != "not faster":
            self._add_parts(contender.change)
        if proof.failure is None and settings_key(contender.settings) not in self._numbers:
            self._numbers[settings_key(contender.settings)] = self._number
            self._number += 1
        return proof.result != "incomplete"

    def _fits(self, one: Contender) -> bool:
        return self._proving.needed(one.settings, math.exp(one.log_speedup)) <= self._clock.left

    def _add_parts(self, change: Change) -> None:
        """Let what changes no number in a change, and what only rounds differently, be contenders as well."""
        for most in RISKS[: RISKS.index(change.risk)]:
            part = change.at_most(most)
            if part is not None and part.names and part.settings not in self._parts:
                self._parts.append(part.settings)


def _is_clearly_slower(proof: Proof, than: Proof) -> bool:
    """Whether one proven speed lies below all that another leaves possible."""
    assert proof.comparison is not None  # nothing is proven without
    assert than.comparison is not None
    return proof.comparison.speedup < than.comparison.low
