"""Processes that make steps of a known mean, on a machine that others use, and pairs of them that a proof asks for."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import NamedTuple

from autoaccel.bench.bench import FreshPair
from autoaccel.bench.settling import Settling
from autoaccel.bench.turns import TurnTaker
from autoaccel.records.messages import GiveTurn, Turn
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Measurement
from autoaccel.search.instruments import Reading
from autoaccel.statistics.turn_plan import pair_turns, plan_turns
from benchmarks.harness.replay import SimulatedClock

START_SECONDS = 5.0  # until a process makes its first step,
WARMUP_STEPS = 5  # of which so many come before its first turn
_NOISE = 0.05  # standard deviation of the logarithm of a step's time, each step's own
_SYSTEM_LUCK = 0.2  # the same of what the operating system spends, each process' own: as digits showed in two of them


class Side(NamedTuple):
    """How long the steps of one side take, in steps of the baseline's usual length."""

    step: float = 1.0
    every: int = 0  # how many steps lie between two long ones, about; 0: there are none
    long: float = 0.0  # what a long one takes
    at_random: bool = False  # whether a step is long by chance, else as by a counter
    settling: float = 0.0  # what the first step takes more, as a share: it vanishes, or comes, exponentially
    settling_steps: float = 1.0
    system: float = 0.0  # what the operating system spends on a step, in its own thread

    @property
    def mean(self) -> float:
        """What a step takes on average in a long run."""
        slower = 1.0 - min(self.settling, 0.0)
        return slower * (self.step + (self.long - self.step) / self.every if self.every else self.step)

    def work(self, number: int, phase: int, generator: random.Random) -> float:
        """Return what the step of this number takes while the machine is left alone."""
        is_long = self.every and (
            generator.random() * self.every < 1 if self.at_random else (number + phase) % self.every == 0
        )
        fading = math.exp(-number / self.settling_steps)
        slower = 1.0 + self.settling * fading if self.settling >= 0 else 1.0 - self.settling * (1 - fading)
        return slower * (self.long if is_long else self.step) * math.exp(generator.gauss(-(_NOISE**2) / 2, _NOISE))


class Neighbour(NamedTuple):
    """Somebody else's work, which comes and goes: both times are drawn from exponential distributions."""

    busy_seconds: float
    idle_seconds: float
    factor: float  # by which the baseline's steps are slower meanwhile,
    candidate_factor: float | None = None  # and the candidate's; None: by the same


class Wander(NamedTuple):
    """A speed of the machine that wanders: an autoregressive process of its logarithm."""

    deviation: float
    correlation: float  # from one second to the next


class Luck(NamedTuple):
    """What a process is faster or slower than another one like it."""

    deviation: float = 0.04
    degrees: float = math.inf  # of Student's t distribution, of which the deviation is the scale then

    def draw(self, generator: random.Random) -> float:
        """Return the logarithm of a process' own factor."""
        normal = generator.gauss(0, 1)
        if math.isfinite(self.degrees):
            normal /= math.sqrt(generator.gammavariate(self.degrees / 2, 2.0) / self.degrees)
        return self.deviation * normal


@dataclass
class Computer:
    """What all processes of a proof share: the time, and what else the computer does."""

    generator: random.Random
    neighbour: Neighbour | None = None
    wander: Wander | None = None
    clock: SimulatedClock = field(default_factory=lambda: SimulatedClock(math.inf))
    _busy: bool = False
    _busy_until: float = 0.0
    _level: float = 0.0
    _level_until: float = 0.0

    def run(self, seconds: float, is_candidate: bool) -> float:
        """Let one process work for what takes so long while the machine is left alone; return how long it took."""
        if self.neighbour is None and self.wander is None:
            self.clock.spent += seconds
            return seconds
        begun, left = self.clock.spent, seconds
        while left > 0:
            factor, until = self._state(is_candidate)
            done = min(left, (until - self.clock.spent) / factor)
            left = left - done if done < left else 0.0
            self.clock.spent += done * factor
        return self.clock.spent - begun

    def _state(self, is_candidate: bool) -> tuple[float, float]:
        """Return by how much steps are slower now, and until when."""
        now, until, factor = self.clock.spent, math.inf, 1.0
        if neighbour := self.neighbour:
            while self._busy_until <= now:
                self._busy = not self._busy
                mean = neighbour.busy_seconds if self._busy else neighbour.idle_seconds
                self._busy_until += self.generator.expovariate(1 / mean)
            if self._busy:
                own = neighbour.candidate_factor
                factor = own if is_candidate and own is not None else neighbour.factor
            until = self._busy_until
        if wander := self.wander:
            while self._level_until <= now:
                new = math.sqrt(1 - wander.correlation**2) * self.generator.gauss(0, wander.deviation)
                self._level = wander.correlation * self._level + new
                self._level_until += 1.0
            factor *= math.exp(self._level)
            until = min(until, self._level_until)
        return factor, until


@dataclass
class Process:
    """One of the two processes of a pair: it stands for a worker that takes turns."""

    side: Side
    unit_seconds: float  # what a step of the baseline's usual length takes in this process
    computer: Computer
    is_candidate: bool
    turns: list[Turn] = field(default_factory=list)
    batch_factor: float = 1.0
    finite_steps: int = 0
    diverged_steps: int | None = None
    made: int = 0  # steps after its warm-up
    phase: int = 0
    system_seconds: float = 0.0  # of a step

    def __post_init__(self) -> None:
        """Draw at which step the counter of long ones stands, and what the operating system spends on each."""
        generator = self.computer.generator
        self.phase = generator.randrange(self.side.every) if self.side.every else 0
        if self.side.system:
            self.system_seconds = self.unit_seconds * self.side.system * math.exp(generator.gauss(0, _SYSTEM_LUCK))

    @property
    def warm_step_seconds(self) -> float:
        """Step time at the end of its warm-up, as it is estimated from its last steps."""
        return self.unit_seconds * self.side.step * (1 + max(self.side.settling, 0.0))

    @property
    def measurement(self) -> Measurement:
        """Its turns alone."""
        return Measurement(0.0, (), tuple(self.turns))

    def step(self) -> float:
        """Make a step; return how long it took."""
        work = self.unit_seconds * self.side.work(self.made, self.phase, self.computer.generator)
        self.made += 1
        return self.computer.run(work, self.is_candidate)

    def take_turn(self, order: GiveTurn, timeout_seconds: float) -> Turn:
        """Make the steps of a turn."""
        for _ in range(order.uncounted_steps):
            self.step()
        steps: list[float] = []
        while len(steps) < order.min_steps or math.fsum(steps) < order.seconds:
            steps.append(self.step())
        turn = Turn(tuple(steps), steps_done=self.made, system_seconds=len(steps) * self.system_seconds)
        self.turns.append(turn)
        return turn


@dataclass
class SimulatedPairs:
    """Fresh pairs of simulated processes, which take as many turns as pairs of real ones."""

    baseline: Side
    candidate: Side
    step_seconds: float
    computer: Computer
    luck: Luck
    offset: float = 0.0  # of the logarithm of the speed-up, from which each pair starts
    walk: float = 0.0  # standard deviation of its steps from pair to pair

    def __post_init__(self) -> None:
        """Begin as a run does that knows its baseline."""
        plan = plan_turns(self.step_seconds)
        self._taker = TurnTaker(plan, 1_000_000, [self.step_seconds])
        self._settling = Settling(plan)

    def compare(self, settings: Settings, how: FreshPair) -> Reading:
        """Return what a pair shows."""
        generator = self.computer.generator
        self.offset += generator.gauss(0, self.walk) if self.walk else 0.0
        both = []
        for is_candidate, side in enumerate((self.baseline, self.candidate)):
            log = self.luck.draw(generator) - self.offset * is_candidate
            both.append(Process(side, self.step_seconds * math.exp(log), self.computer, bool(is_candidate)))
        ready = [START_SECONDS + WARMUP_STEPS * process.warm_step_seconds for process in both]
        self.computer.clock.spent += sum(ready)
        plan = self._taker.plan
        speedup = plan.step_seconds / both[1].warm_step_seconds
        most = pair_turns(plan, sum(ready), self._taker.scatter.deviation, speedup)
        reading = self._taker.take(
            both[0],  # type: ignore[arg-type]  # it has the turns of a process, which is all that is asked for
            both[1],  # type: ignore[arg-type]  # the same
            lambda pairs: len(pairs) >= most,
            later_steps=self._settling.later_steps(settings),
        )
        assert isinstance(reading, Reading)
        return reading._replace(trend=self._settling.take_in(settings, reading.pairs, reading.trusted))
