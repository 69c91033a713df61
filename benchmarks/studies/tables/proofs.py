"""A whole run of autoaccel, replayed from a table: the search, and the proof of what it found in pairs of processes."""

from __future__ import annotations

import math
import random

from autoaccel.records.contender import ProofReason
from autoaccel.records.messages import Failure
from autoaccel.records.progress import ignore
from autoaccel.records.settings import Settings
from autoaccel.search.loop import Reserve, Search
from autoaccel.search.ranking import Contender
from autoaccel.session.bench import PairReading
from autoaccel.session.contest import Contest
from autoaccel.session.contributions import Breakdown
from autoaccel.session.least_run import LARGE_SPEEDUP
from autoaccel.session.proof import Prover
from autoaccel.session.proof_time import likely_speed_seconds, proof_seconds
from autoaccel.session.proving import Attempt, Open
from autoaccel.session.turns import TurnFailed
from autoaccel.statistics.deciding import rule_for
from autoaccel.statistics.turn_plan import TURNS, pair_seconds, pair_turns
from benchmarks.harness.replay import Facts, Replay, Side, SimulatedClock

PROOF_SHARE = 0.6  # of the budget is kept for the proof at most, as in `autoaccel tune`
_PASSES = 20  # of single readings, whose mean is what one costs


class ReplayedPairs:
    """Pairs of processes whose turns are those of a table's visits: each pair pays for two starts and all its turns."""

    def __init__(self, facts: Facts, replay: Replay, clock: SimulatedClock, generator: random.Random) -> None:
        """Begin with no pair measured.

        Args:
            facts: Of the visits that are replayed.
            replay: The search's, which knows what is compiled.
            clock: Pays.
            generator: Draws the turns.
        """
        self._facts = facts
        self._replay = replay
        self._clock = clock
        self._random = generator
        self._taker = facts.turn_taker()

    def measure(self, settings: Settings, seed: int, steps: int | None) -> PairReading | Failure:
        """Return what a pair shows; the budget may be spent before."""
        if self._clock.left <= 0:
            return Failure(kind="hung", message="the budget was spent")
        visit = self._replay.draw(settings)
        outcome = self._replay.start(visit)
        if isinstance(outcome, Failure):
            return outcome
        self._clock.spent += self._facts.ready_seconds
        count = len(outcome.turns)
        order = [*self._random.sample(range(count), count), *self._random.choices(range(count), k=2 * TURNS)]
        baseline, other = (
            Side([turns[index] for index in order], self._clock) for turns in (visit.baseline_turns, outcome.turns)
        )
        facts = self._facts
        most = pair_turns(facts.plan, 2 * facts.ready_seconds, self._taker.scatter.deviation)
        turns = self._taker.take(
            baseline,  # type: ignore[arg-type]  # it has the turns of a process, which is all that is asked for
            other,  # type: ignore[arg-type]  # a replay stands for a worker
            lambda pairs: len(pairs) >= most,
        )
        assert not isinstance(turns, TurnFailed)
        self._taker.learn(turns)
        return PairReading(turns.pairs, turns.trusted, None)


class ReplayedProving:
    """Proves with replayed pairs what changes no number, and keeps a part of the budget for it."""

    def __init__(self, search: Search, facts: Facts, pairs: ReplayedPairs, clock: SimulatedClock) -> None:
        """Begin with nothing proven."""
        turns = pair_turns(facts.plan, 2 * facts.ready_seconds, facts.plan.usual_deviation)
        self._pair_seconds = pair_seconds(facts.plan, facts.ready_seconds, turns)
        self._search = search
        self._clock = clock
        self._prover = Prover(pairs, facts.table.head.facts, clock, ignore)

    def reserve(self, settings: Settings, speedup: float | None) -> float:
        """Return what the search leaves for the proof."""
        return min(PROOF_SHARE * self._clock.budget_seconds, proof_seconds(self._pair_seconds, speedup))

    def needed(self, settings: Settings, speedup: float | None) -> float:
        """Return what a proof takes."""
        return proof_seconds(self._pair_seconds, speedup, with_further=False)

    def likely_seconds(self, settings: Settings, speedup: float | None = None) -> float:
        """Return what a proof is likely to take."""
        return likely_speed_seconds(self._pair_seconds, speedup or LARGE_SPEEDUP)

    @property
    def drift(self) -> float:
        """What is replayed was measured within an hour."""
        return 0.0

    def prove(self, contender: Contender, number: int, why: ProofReason) -> Attempt:
        """Return the proof of the n-th contender."""
        began, rule = self._clock.spent, rule_for(number, self._search.knowledge.min_speedup(contender.settings))
        proof = self._prover.prove(contender.settings, rule, None)
        return Attempt(contender, proof, self._clock.spent - began)

    def break_down(self, attempt: Attempt) -> Breakdown:
        """Return that nothing is told of what each setting contributes: what is proven stays whole."""
        return Breakdown()

    def missing(self, contender: Contender) -> Open:
        """Return a proof that is not gone on with."""
        return Open(contender, "incomplete", math.inf)

    def refused(self, attempt: Attempt, search_continues: bool) -> None:
        """Nobody is told."""

    def continue_search(self, settings: Settings) -> None:
        """No stage is planned."""

    def spare_seconds(self, attempt: Attempt) -> float:
        """Return what is left: nothing is kept for contributions."""
        return self._clock.left

    def begin_further_search(self, attempt: Attempt, settings: Settings) -> None:
        """Nobody is told."""

    def keep(self, attempt: Attempt) -> None:
        """No recipe is written."""

    def extend_search(self) -> None:
        """A replayed search has no share of the budget that it could exceed: it always leaves what a proof needs."""

    def reserve_beside(self, attempt: Attempt) -> Reserve:
        """Return what a search that continues leaves for the proof of something better."""
        held = attempt.contender.settings
        return lambda settings, speedup: 0.0 if settings == held else self.needed(settings, speedup)


def search_and_prove(search: Search, facts: Facts, pairs: ReplayedPairs, clock: SimulatedClock) -> Settings:
    """Search and prove as `autoaccel tune` does, within one budget; return what it ends with."""
    proving, baseline = ReplayedProving(search, facts, pairs, clock), facts.table.head.baseline_settings
    won = Contest(search, proving, clock).run()
    return won.attempt.contender.settings if won and won.attempt else baseline


def seconds_of_single_pass(facts: Facts) -> float:
    """Return what it takes to measure every setting once, alone: the mean of its visits, each compilation paid once.

    That is what whoever measures the whole space as a plain script does has to pay. A table of several rounds, each
    visit in turns with the baseline, costs many times as much, and nobody needs it but whoever asks for the truth.
    """
    clock = SimulatedClock(math.inf)
    for seed in range(_PASSES):
        replay = Replay(facts, clock, random.Random(seed))
        for settings in facts.settings.values():
            replay.read_alone(settings)
    return clock.spent / _PASSES
