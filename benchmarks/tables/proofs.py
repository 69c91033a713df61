"""A whole run of autoaccel, replayed from a table: the search, and the proof of what it found in pairs of processes."""

from __future__ import annotations

import math
import random
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from replay import Facts, Replay, Side, SimulatedClock

from autoaccel.records.progress import ignore
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import Request
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Failure
from autoaccel.records.workload import Workload
from autoaccel.session.contest import Contest
from autoaccel.session.pairs import PairReading
from autoaccel.session.proof import Prover, proof_seconds
from autoaccel.session.run import Run
from autoaccel.session.run_folder import RunFolder
from autoaccel.session.searching import Search
from autoaccel.session.turn_plan import TURNS, TurnScatter, pair_seconds, turns_worth
from autoaccel.session.turns import TurnFailed, take_turns
from autoaccel.statistics.comparison import log_ratios

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
        self._own_seconds = [facts.usual]
        self._scatter = TurnScatter(facts.plan.usual_deviation)

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
        own, other = (
            Side([turns[index] for index in order], self._clock) for turns in (visit.own_turns, outcome.turns)
        )
        facts = self._facts
        most = turns_worth(facts.plan, 2 * facts.ready_seconds, self._scatter.deviation)
        turns = take_turns(
            own,  # type: ignore[arg-type]  # it has the turns of a process, which is all that is asked for
            other,  # type: ignore[arg-type]
            facts.plan,
            facts.table.head.facts.steps_per_epoch,
            self._own_seconds,
            lambda pairs: len(pairs) >= most,
            math.inf,
        )
        assert not isinstance(turns, TurnFailed)
        self._own_seconds.extend(turns.own_seconds)
        if turns.trusted:
            self._scatter.learn(log_ratios(turns.pairs))
        return PairReading(turns.pairs, turns.trusted, None)


def search_and_prove(
    search: Search, space: SearchSpace, facts: Facts, pairs: ReplayedPairs, clock: SimulatedClock
) -> Settings:
    """Search this space and prove as `autoaccel tune` does, within one budget; return what it ends with."""
    head = facts.table.head
    turns = turns_worth(facts.plan, 2 * facts.ready_seconds, facts.plan.usual_deviation)
    usual = pair_seconds(facts.plan, facts.ready_seconds, turns)
    yardstick: Any = SimpleNamespace(pair_seconds=lambda speedup: usual)  # all that is asked of it

    def reserve(settings: Settings, speedup: float | None) -> float:
        return min(PROOF_SHARE * clock.budget_seconds, proof_seconds(yardstick, speedup))

    def needed(settings: Settings, speedup: float | None) -> float:
        return proof_seconds(yardstick, speedup, confirms=False)

    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place))
        request = Request(Workload("", "", ""), math.inf, Constraint(0.0, True))
        run = Run(request, folder, None, clock, ignore)  # type: ignore[arg-type]  # nothing is started
        prover, contest = Prover(run, head.facts, pairs), Contest(search, space, head.own, needed, clock)
        goes_on = True
        while True:
            if goes_on:
                search.run(reserve)
            contender = contest.next()
            if contender is None:
                return head.own
            began, settings = clock.spent, contender.settings
            proof = prover.prove(settings, contest.number_of(settings), None, search.least_speedup(settings))
            if proof.outcome == "proven":
                return settings
            goes_on = contest.refuse(contender, proof, clock.spent - began)


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
