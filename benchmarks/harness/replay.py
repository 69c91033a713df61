"""Replay a table: a search sees the readings that were taken, with all their noise, and pays what they took."""

from __future__ import annotations

import math
import random
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from autoaccel.advise.demand import demand_of
from autoaccel.advise.findings import advise
from autoaccel.advise.observations import Observations
from autoaccel.bench.turns import TurnTaker
from autoaccel.records.messages import Failure, GiveTurn, Turn
from autoaccel.records.settings import Settings, settings_key
from autoaccel.records.trial import Measurement
from autoaccel.runs.clock import BudgetClock
from autoaccel.search.instruments import QuickLook, Reading
from autoaccel.space.knobs import KnobContext, compiled_part, slow_starting_knobs
from autoaccel.statistics.comparison import middle, turns_log
from autoaccel.statistics.disturbance import undisturbed, usual_seconds
from autoaccel.statistics.runs import CompileSeconds
from autoaccel.statistics.steps import step_seconds_of_turns
from autoaccel.statistics.turn_plan import plan_turns, trial_seconds, turns_worth
from autoaccel.workers.measuring import Measuring
from benchmarks.harness.table import Table, Visit

START_SECONDS = 0.5  # until a forked process makes its first step
TRAININGS = 1000
"""How often the training is run with what a search has found: that a second saved on each counts so often."""


class SimulatedClock(BudgetClock):
    """A clock that only a simulation moves."""

    def __init__(self, budget_seconds: float) -> None:
        self.budget_seconds = budget_seconds
        self._spent = 0.0

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return self._spent

    @spent.setter
    def spent(self, seconds: float) -> None:
        self._spent = seconds


def seconds_of(turn: Turn) -> float:
    """Return what a turn took, with the first step that does not count."""
    return sum(turn.step_seconds) * (1 + 1 / len(turn.step_seconds))


@dataclass
class Side:
    """One of the two processes of a visit, whose turns come again."""

    recorded: Sequence[Turn]
    clock: SimulatedClock
    turns: list[Turn] = field(default_factory=list)
    batch_factor: float = 1.0
    finite_steps: int = 0
    diverged_steps: int | None = None  # what diverged is in no table

    @property
    def measurement(self) -> Measurement:
        """The turns alone."""
        return Measurement(0.0, (), tuple(self.turns))

    def take_turn(self, order: GiveTurn, timeout_seconds: float) -> Turn:
        """Return the next recorded turn; after the last the first comes again."""
        turn = self.recorded[len(self.turns) % len(self.recorded)]
        self.clock.spent += seconds_of(turn)
        self.turns.append(turn)
        return turn


def by_baseline(visits: Sequence[Visit]) -> list[Visit]:
    """Return the visits, their rounds counted anew: what was added to a round later had a baseline of its own."""
    found: list[Visit] = []
    number, last = 0, None
    for visit in visits:
        number += visit.round != last
        last = visit.round
        found.append(msgspec.structs.replace(visit, round=number))
    return found


class Facts:
    """What a table says on the whole, which no search sees."""

    def __init__(self, table: Table, whole: Facts | None = None) -> None:
        """Sum up all visits.

        Args:
            table: Whose visits.
            whole: The table of which these are a part: what a compilation costs is read there, as not every part has
                visits that compiled anew. Speeds are never read there.
        """
        self.whole = whole or self
        self._compile_seconds: dict[str, CompileSeconds] = {}
        head = table.head
        self.findings = advise(Observations(head.profile, head.machine, training=head.facts))
        """Of today's rules about the recorded profile, as a search would have them today."""
        self.context = KnobContext(head.machine, head.facts, demand_of(head.profile, None, head.facts))
        table = Table(table.head, by_baseline(table.visits))
        self.table = table
        steps_per_epoch = table.head.facts.steps_per_epoch
        baseline = [
            step_seconds_of_turns(visit.baseline_turns, steps_per_epoch)
            for visit in table.visits
            if visit.baseline_turns
        ]
        self.usual = usual_seconds([seconds for turns in baseline for seconds in turns])
        by_round: dict[int, list[float]] = defaultdict(list)
        for visit in table.visits:
            by_round[visit.round].extend(step_seconds_of_turns(visit.baseline_turns, steps_per_epoch))
        self.usual_of_round = {number: usual_seconds(seconds) for number, seconds in by_round.items() if seconds}
        self.baseline_step_seconds = statistics.median(seconds for turns in baseline for seconds in turns)
        self.plan = plan_turns(self.baseline_step_seconds)
        self.visits: dict[str, list[Visit]] = defaultdict(list)
        self.failed: dict[str, Visit] = {}
        self.settings: dict[str, Settings] = {}
        for visit in table.visits:
            key = settings_key(visit.settings)
            self.settings[key] = visit.settings
            if isinstance(visit.outcome, Failure):
                self.failed[key] = visit
            else:
                self.visits[key].append(visit)
        trusted = {key: [visit for visit in visits if visit.trusted] for key, visits in self.visits.items()}
        self.cold_seconds = whole.cold_seconds if whole else self._cold_seconds()
        self.logs = {
            key: [(visit.round, self.log_of(visit)) for visit in trusted[key] or visits]
            for key, visits in self.visits.items()
        }
        self.round_level, self.log_speedup = self._levels(settings_key(table.head.baseline_settings))
        self.grid_seconds = sum(visit.spent_seconds for visit in table.visits)
        self.pass_seconds = sum(visit.spent_seconds for visit in table.visits if visit.round == 1)

    @property
    def ready_seconds(self) -> float:
        """What it takes until a process with the user's own settings is warm."""
        return sum(self.table.head.baseline.warmup_step_seconds) + START_SECONDS

    @property
    def trial_seconds(self) -> float:
        """What a trial is expected to take before there was any."""
        turns = turns_worth(self.plan, self.ready_seconds, self.plan.usual_deviation)
        return trial_seconds(self.plan, self.ready_seconds, turns)

    def log_of(self, visit: Visit) -> float:
        """Return the logarithm of the speed-up that a visit shows."""
        assert isinstance(visit.outcome, Measurement)
        steps_per_epoch = self.table.head.facts.steps_per_epoch
        baseline = step_seconds_of_turns(visit.baseline_turns, steps_per_epoch)
        other = step_seconds_of_turns(visit.outcome.turns, steps_per_epoch)
        pairs = list(zip(baseline, other, strict=True))
        turns = list(zip(visit.baseline_turns, visit.outcome.turns, strict=True))
        counts = undisturbed(turns, pairs, self.usual_of_round[visit.round])
        return turns_log([pair for pair, count in zip(pairs, counts, strict=True) if count] or pairs)

    def compile_seconds(self, settings: Settings) -> CompileSeconds:
        """Return what slower first steps cost a run that finds nothing compiled, and one that finds all."""
        key = settings_key(settings)
        if key not in self._compile_seconds:
            visits = self.whole.visits[key]
            warm = statistics.median(visit.outcome.compile_seconds for visit in visits)  # type: ignore[union-attr]  # only visits that succeeded are here
            cold = self.cold_seconds.get(settings_key(compiled_part(settings)), 0.0)
            self._compile_seconds[key] = CompileSeconds(max(warm, cold), warm)
        return self._compile_seconds[key]

    def turn_taker(self) -> TurnTaker:
        """Return what takes turns as a run does that has just measured its baseline."""
        return TurnTaker(self.plan, self.table.head.facts.steps_per_epoch, [self.usual])

    def total_seconds(self, settings: Settings, planned_steps: int) -> float:
        """Return the time of an average run, as all visits together tell it."""
        steps_seconds = planned_steps * self.baseline_step_seconds / math.exp(self.log_speedup[settings_key(settings)])
        return (
            self.table.head.baseline.startup_seconds + self.compile_seconds(settings).average(TRAININGS) + steps_seconds
        )

    def _levels(self, baseline: str) -> tuple[dict[int, float], dict[str, float]]:
        """Return the luck of each round's baseline process, and the log speed-up of each settings apart from it.

        A round's baseline is one process, which is some percent faster or slower than the next: what all of the
        round's ratios share. Fitted by turns until nothing moves, with the middle rather than the mean. That leaves
        open what all rounds share: the baseline's own visits should show nothing, nor should the rounds' luck on
        average, and each of these processes counts alike.
        """
        rounds = {number: 0.0 for found in self.logs.values() for number, _ in found}
        speedups = dict.fromkeys(self.logs, 0.0)
        for _ in range(50):
            speedups = {
                key: middle([log - rounds[number] for number, log in found]) for key, found in self.logs.items()
            }
            for number in rounds:
                left = [log - speedups[key] for key, found in self.logs.items() for at, log in found if at == number]
                rounds[number] = statistics.median(left)
        # In the end the mean over visits, as a proof takes it: what a run can expect of its processes, fast or slow.
        speedups = {
            key: statistics.fmean(log - rounds[number] for number, log in found) for key, found in self.logs.items()
        }
        visits = len(self.logs[baseline])
        shared = (visits * speedups[baseline] - sum(rounds.values())) / (visits + len(rounds))
        return (
            {number: level + shared for number, level in rounds.items()},
            {key: 0.0 if key == baseline else speedup - shared for key, speedup in speedups.items()},
        )

    def _cold_seconds(self) -> dict[str, float]:
        cold = {}
        for visit in self.table.visits:
            if visit.cold and isinstance(visit.outcome, Measurement):
                cold[settings_key(compiled_part(visit.settings))] = visit.outcome.compile_seconds
        return cold


class Replay:
    """One search's view of a table: for each settings some visit, drawn by chance, as long as there are others."""

    def __init__(self, facts: Facts, clock: SimulatedClock, generator: random.Random) -> None:
        """Begin with nothing compiled."""
        self._facts = facts
        self._clock = clock
        self._random = generator
        self._compiled: set[str] = set()
        self._left: dict[str, list[Visit]] = {}
        self._taker = facts.turn_taker()
        # One baseline process serves a whole search, with the luck of one round's.
        self._level = facts.round_level[generator.choice(sorted(facts.round_level))]

    def draw(self, settings: Settings) -> Visit:
        """Return some visit to the settings; none comes again before all others came."""
        key = settings_key(settings)
        if key in self._facts.failed:
            return self._facts.failed[key]
        if not self._left.get(key):
            self._left[key] = self._random.sample(self._facts.visits[key], len(self._facts.visits[key]))
        return self._left[key].pop()

    def start(self, visit: Visit) -> Measurement | Failure:
        """Pay for a process's start and its warm-up, compilation included where nothing was compiled; return it."""
        outcome = visit.outcome
        if isinstance(outcome, Failure):
            self._clock.spent += visit.spent_seconds
            return outcome
        turns_seconds = sum(seconds_of(turn) for turn in (*visit.baseline_turns, *outcome.turns))
        seconds = max(0.0, visit.spent_seconds - turns_seconds)
        if slow_starting_knobs(visit.settings):
            part = settings_key(compiled_part(visit.settings))
            first = part not in self._compiled
            self._compiled.add(part)
            extra = max(0.0, self._facts.cold_seconds[part] - outcome.compile_seconds)
            if visit.cold and not first:
                warm = [
                    other.outcome for other in self._facts.whole.visits[settings_key(visit.settings)] if not other.cold
                ]
                usual = statistics.median(one.compile_seconds for one in warm if isinstance(one, Measurement))
                seconds -= outcome.compile_seconds - usual
            elif first:
                seconds += extra
                steps = outcome.warmup_step_seconds
                outcome = msgspec.structs.replace(outcome, warmup_step_seconds=(steps[0] + extra, *steps[1:]))
        self._clock.spent += seconds
        return outcome

    def compare(self, settings: Settings, look: QuickLook) -> Reading | Failure:
        """Measure settings as a `LiveBench` does."""
        visit = self.draw(settings)
        outcome = self.start(visit)
        if isinstance(outcome, Failure):
            return outcome
        order = self._random.sample(range(len(outcome.turns)), len(outcome.turns))
        shift = math.exp(self._level - self._facts.round_level[visit.round])
        baseline = Side([_slowed(visit.baseline_turns[index], shift) for index in order], self._clock)
        other = Side([outcome.turns[index] for index in order], self._clock)
        reading = self._taker.take(as_measuring(baseline), as_measuring(other), look.enough)
        assert isinstance(reading, Reading)
        return reading._replace(measurement=msgspec.structs.replace(outcome, turns=tuple(other.turns)))

    def read_alone(self, settings: Settings) -> tuple[float, float] | None:
        """Measure settings as a plain script does: the process alone, the median of its steps.

        Return its step seconds and its slower first steps, or None if it failed.
        """
        visit = self.draw(settings)
        outcome = self.start(visit)
        if isinstance(outcome, Failure):
            return None
        self._clock.spent += sum(seconds_of(turn) for turn in outcome.turns)
        steps = [seconds for turn in outcome.turns for seconds in turn.step_seconds]
        # The mean where workers deliver in bursts: a median would not see the one step that waits for all.
        seconds = statistics.fmean(steps) if settings.get("loader.workers") else statistics.median(steps)
        return seconds, outcome.compile_seconds


def _slowed(turn: Turn, factor: float) -> Turn:
    return msgspec.structs.replace(turn, step_seconds=tuple(factor * seconds for seconds in turn.step_seconds))


def as_measuring(side: Side) -> Measuring:
    """Return what has turns as what gives them."""
    return side  # type: ignore[return-value]  # it has the turns of one, which is all that is asked for
