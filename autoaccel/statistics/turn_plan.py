"""How turns are planned: how long one is, how many tell enough, and what a trial and a pair of processes cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from autoaccel.records.messages import LONG_STEP_SECONDS, GiveTurn
from autoaccel.statistics.comparison import PROCESS_DEVIATION, Pair
from autoaccel.statistics.repetitions import best_repetitions, deviation_of_differences, successive_differences

TURNS = 8
"""Of each process in a pair at most, unless it trains to its end and has more: the best number for the benchmark's
small workloads on two shared cores, sqrt(1.6 s / 0.5 s) * 0.12 / 0.03 or about 7 (see `turns_worth`)."""

_LOOK_STEPS = 75
"""Of each process that a pair looks at where they are short: of two such pairs one meets a step that is long every
fiftieth time by chance in 95 of 100 cases. A mean step time that rests on fewer misses what a run pays for."""

_LOOK_SECONDS = 8.0  # that turns may take for it, or as long as the two processes took to start

_STEADY = 0.5 * PROCESS_DEVIATION
"""What pairs of processes scatter at least, about, beside their turns: on the six tables it is 0.03 to 0.07. The lower
end, because turns count for more where processes scatter less."""

_TURN_STEPS = 4  # a turn should hold about this many of the baseline's steps where they are short,
_SHORTEST_TURN = 0.2  # and last this many seconds at least: short turns share the same disturbances
_MIN_DIFFERENCES = 6  # between turns, from which on they tell how much turns scatter
_USUAL_DEVIATION = 0.1  # of a turn's log ratio on the benchmark's two shared cores; a few turns may show less by chance
_USUAL_OF_LONG_STEPS = 0.06
"""The same where a step is a turn: what turns of half a second show on the same cores (char_gpt 0.058, small_resnet
0.056 in benchmarks/results/tables). Steps of several seconds and cores of one's own scatter less."""


Enough = Callable[[Sequence[Pair]], bool]
"""Returns whether the turns that count so far are enough."""


class TurnPlan(NamedTuple):
    """How turns are taken beside a baseline."""

    step_seconds: float  # of the baseline
    order: GiveTurn  # what each process is told
    min_turns: int  # undisturbed ones, of each of two processes, that say anything; an even number
    max_turns: int  # of each that a trial takes; by `turns_worth` fewer are best where each takes seconds
    turns_alone: int  # of the baseline, before anything is compared with it
    usual_deviation: float  # of a turn's log ratio, as long as a run has not shown its own

    def turn_seconds(self, speedup: float = 1.0) -> float:
        """Return what a turn takes of a process whose steps are this many times as fast as the baseline's."""
        return (self.order.uncounted_steps + self.counted_steps(speedup)) * self.step_seconds / speedup

    def counted_steps(self, speedup: float = 1.0) -> int:
        """Return how many steps of such a process count in a turn."""
        return max(self.order.min_steps, math.ceil(self.order.seconds * speedup / self.step_seconds))


def plan_turns(step_seconds: float, device: str = "cpu") -> TurnPlan:
    """Return how turns should be taken.

    Where steps are long, one step is a turn, and two turns of each process say something: if they agree, they leave
    less error than the luck of their processes. A candidate with shorter steps makes as many as last as long.

    Args:
        step_seconds: Of the baseline, about.
        device: That it runs on.
    """
    if step_seconds < LONG_STEP_SECONDS:
        return TurnPlan(
            step_seconds,
            GiveTurn(seconds=max(_TURN_STEPS * step_seconds, _SHORTEST_TURN), min_steps=3, uncounted_steps=1),
            min_turns=4,
            max_turns=12,
            turns_alone=6,
            usual_deviation=_USUAL_DEVIATION,
        )
    # The first step on an accelerator that has nothing to do waits for a batch that is usually loaded while it is busy.
    uncounted_steps = 0 if device.startswith("cpu") else 1
    return TurnPlan(
        step_seconds,
        GiveTurn(seconds=LONG_STEP_SECONDS, min_steps=1, uncounted_steps=uncounted_steps),
        min_turns=2,
        max_turns=6,
        turns_alone=2,
        usual_deviation=_USUAL_OF_LONG_STEPS,
    )


class TurnScatter:
    """How much the log ratio scatters from turn to turn, as far as a run has shown it."""

    def __init__(self, usual_deviation: float) -> None:
        """Begin with what is usual."""
        self._usual_deviation = usual_deviation
        self._differences: list[float] = []

    def learn(self, logs: Sequence[float]) -> None:
        """Take the log ratios into account that two processes have shown in turns, in their order."""
        self._differences.extend(successive_differences(logs))

    @property
    def deviation(self) -> float:
        """Standard deviation of the log ratio of one turn."""
        if len(self._differences) < _MIN_DIFFERENCES:
            return self._usual_deviation
        return deviation_of_differences(self._differences)


def turns_worth(plan: TurnPlan, start_seconds: float, deviation: float, speedup: float = 1.0) -> int:
    """Return how many turns of each process are best: the most exact answer for the time, an even number.

    The more a start costs compared with a turn, and the more turns scatter compared with processes, the more turns.

    Args:
        plan: The turns.
        start_seconds: What it takes until the processes are warm, of all that must be started.
        deviation: Of the log ratio from turn to turn.
        speedup: How many times as fast the candidate's own steps are.
    """
    both_seconds = plan.turn_seconds() + plan.turn_seconds(speedup)
    best = best_repetitions(start_seconds, both_seconds, _STEADY, deviation)
    return min(max(2 * round(best / 2), plan.min_turns), TURNS)


def pair_turns(plan: TurnPlan, start_seconds: float, deviation: float, speedup: float = 1.0) -> int:
    """Return how many turns of each process a fresh pair takes, an even number; see `turns_worth`.

    It takes more than are best for its ratio if these would see too few steps to meet a rare long one.

    Args:
        plan: The turns.
        start_seconds: What it takes until both processes are warm.
        deviation: Of the log ratio from turn to turn.
        speedup: How many times as fast the candidate's own steps are.
    """
    wanted = _LOOK_STEPS / plan.counted_steps()
    both_seconds = plan.turn_seconds() + plan.turn_seconds(speedup)
    look = min(wanted, max(_LOOK_SECONDS, start_seconds) / both_seconds)
    return max(turns_worth(plan, start_seconds, deviation, speedup), 2 * math.ceil(look / 2))


def trial_seconds(plan: TurnPlan, ready_seconds: float, turns: int, speedup: float = 1.0) -> float:
    """Return about how long a trial takes: a process that gets ready, and turns beside a baseline that is alive.

    Args:
        plan: The turns.
        ready_seconds: What it takes until the process is warm.
        turns: Of each of the two.
        speedup: How many times as fast the candidate's own steps are.
    """
    return ready_seconds + turns * (plan.turn_seconds() + plan.turn_seconds(speedup))


def pair_seconds(plan: TurnPlan, ready_seconds: float, turns: int, speedup: float = 1.0) -> float:
    """Return about how long a fresh pair takes; see `trial_seconds`. Each of the two must get ready.

    Their starts overlap, but not where a single core builds both; their warm-ups never do.
    """
    return 2 * ready_seconds + turns * (plan.turn_seconds() + plan.turn_seconds(speedup))
