"""Turns: two processes measured alternately, until enough of that was undisturbed."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from autoaccel.bench.limits import AT_ONCE, MAX_REPEATED, MAX_TIMES_LONGER
from autoaccel.records.messages import Failure, GiveTurn, Turn
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import Workload
from autoaccel.search.instruments import Reading
from autoaccel.statistics.comparison import Pair, log_ratios
from autoaccel.statistics.disturbance import RECENT_TURNS, undisturbed, usual_seconds
from autoaccel.statistics.steps import step_seconds_of_turns
from autoaccel.statistics.turn_plan import Enough, TurnPlan, TurnScatter
from autoaccel.workers.describing import workload_error
from autoaccel.workers.measuring import Measuring


def lacks_room(failure: Failure, on_accelerator: bool) -> bool:
    """Whether a process may have failed because another was alive beside it, and may not if it is alone.

    Not by the memory of a computer's own: a process that lacks it lacks it alone, too, or ends others.
    """
    return failure.kind == "busy" or (on_accelerator and failure.kind == "memory")


def is_of_its_own(failure: Failure) -> bool:
    """Whether a process under the user's own settings failed for a reason that is the training's own.

    Not for want of memory, which the other process may have taken, nor for want of time.
    """
    return failure.kind not in ("hung", "memory", "busy")


def divergence(baseline: Measuring, other: Measuring) -> Failure | None:
    """Return the failure of a candidate whose loss is no longer finite, unless the baseline's own is not by then.

    A baseline that goes on to diverge later excuses nothing.

    Args:
        baseline: The baseline's process.
        other: The candidate's.
    """
    steps = other.diverged_steps
    if steps is None or (baseline.diverged_steps is not None and baseline.finite_steps < steps):
        return None
    message = f"its loss is no longer a finite number after {steps:,} steps"
    return Failure(kind="diverged", message=message, signature="")


class OwnFailed(NamedTuple):
    """The process that another is compared with has failed, which says nothing of the settings of that one."""

    failure: Failure


def blame(failed: OwnFailed, workload: Workload) -> Failure:
    """Return what a comparison comes to whose reference has failed again.

    Raises:
        WorkloadFailedError: If the reference, under the user's own settings, has failed for a reason of its own.
    """
    if is_of_its_own(failed.failure):
        raise workload_error(failed.failure, workload, "under your own settings")
    return failed.failure


class TurnTaker:
    """Has a baseline and candidates take turns, and learns from them what usual turns are and how they scatter."""

    def __init__(
        self,
        plan: TurnPlan,
        steps_per_epoch: int,
        baseline_seconds: Sequence[float],
        scatter: TurnScatter | None = None,
    ) -> None:
        """Begin with no turn taken.

        Args:
            plan: How turns are taken.
            steps_per_epoch: Of the training.
            baseline_seconds: The baseline's step seconds in earlier turns, by which disturbed ones are told.
            scatter: What earlier turns have shown of how much they scatter; it learns. None: nothing yet.
        """
        self.plan = plan
        self.scatter = scatter or TurnScatter(plan.usual_deviation)
        self.baseline_seconds = list(baseline_seconds)
        """The baseline's step seconds, of all turns from which was learned."""
        self.disturbed = 0
        """How many of these were disturbed."""
        self._steps_per_epoch = steps_per_epoch
        self._random = random.Random(0)

    def take(
        self,
        baseline: Measuring,
        other: Measuring,
        enough: Enough,
        timeout_seconds: float = math.inf,
        later_steps: int = 0,
    ) -> Reading | Failure | OwnFailed:
        """Give two processes turns until they are enough, or time is up, or their training is over; learn from them.

        Which one begins changes each time, so that a drift of the machine favours neither.

        Args:
            baseline: The baseline's process.
            other: The candidate's.
            enough: When to end.
            timeout_seconds: For all.
            later_steps: That each makes before its first turn.
        """
        deadline = time.perf_counter() + timeout_seconds
        factor = other.batch_factor / baseline.batch_factor
        seconds, least = self.plan.turn_seconds(), self.plan.min_turns
        before = len(baseline.turns), len(other.turns)
        while True:
            for number in range(AT_ONCE):
                for side in (baseline, other) if number % 2 == 0 else (other, baseline):
                    taken = side.turns[before[side is other] :]
                    order = self._order(taken) if taken else later_order(self.plan, later_steps)
                    usual = seconds if taken else seconds + later_steps * self.plan.step_seconds
                    longest = max(deadline - time.perf_counter(), MAX_TIMES_LONGER * usual)
                    turn = side.take_turn(order, longest)
                    if isinstance(turn, Failure):
                        return turn if side is other else OwnFailed(turn)
            if failure := divergence(baseline, other):
                return failure
            alternated = list(zip(baseline.turns[before[0] :], other.turns[before[1] :], strict=True))
            every, counted = self._read(alternated, factor)
            over = len(every) < len(alternated) or deadline - time.perf_counter() < 2 * AT_ONCE * seconds
            trusted = enough(counted) or (over and len(counted) >= least)
            if trusted or over or (len(every) >= MAX_REPEATED * least and len(counted) < least):
                trusted = trusted or len(counted) == len(every)
                pairs = self._learn(every, counted, trusted)
                return Reading(
                    other.measurement, tuple(mine for mine, _ in alternated), pairs, trusted, _steps(alternated)
                )

    def _order(self, taken: Sequence[Turn]) -> GiveTurn:
        """Return the order of a turn for a process that has taken some.

        It has as many steps as usually last as long as a turn should: one that ended by the clock would end sooner
        after a long step, which would then weigh more than it does in a run. Where steps go by that are not counted,
        the number varies, so that long steps that come at regular intervals are not missed for ever.
        """
        plan = self.plan.order
        means = [statistics.fmean(turn.step_seconds) for turn in taken if turn.step_seconds]
        if not means:
            return plan
        number = max(plan.min_steps, math.ceil(plan.seconds / statistics.median(means)))
        number += self._random.randrange(2) if plan.uncounted_steps else 0
        return msgspec.structs.replace(plan, seconds=0.0, min_steps=number)

    def take_alone(
        self, measuring: Measuring, number: int, seconds_left: Callable[[], float], later_steps: int = 0
    ) -> Failure | None:
        """Give a process so many turns, or until its training is over; return how it fails, if it does.

        Args:
            measuring: The process.
            number: Of turns.
            seconds_left: Returns how long the next one may take.
            later_steps: That it makes before its first turn.
        """
        for taken in range(number):
            turn = measuring.take_turn(later_order(self.plan, 0 if taken else later_steps), seconds_left())
            if isinstance(turn, Failure):
                return turn
            if not turn.step_seconds:
                break
        return None

    def read_apart(self, baseline: Measurement, other: Measurement) -> Reading:
        """Return what two processes show that were not alive at the same time, and learn from it.

        Where one has made more turns than the other, its last ones do not count.
        """
        both = list(zip(baseline.turns, other.turns, strict=False))
        every, counted = self._read(both, other.batch_factor / baseline.batch_factor)
        trusted = len(counted) >= self.plan.min_turns or len(counted) == len(every)
        return Reading(other, baseline.turns, self._learn(every, counted, trusted), trusted, _steps(both))

    def _learn(self, every: list[Pair], counted: list[Pair], trusted: bool) -> list[Pair]:
        """Take into account what turns have shown of the baseline, and of the machine; return those that count."""
        self.baseline_seconds.extend(mine for mine, _ in every)
        self.disturbed += len(every) - len(counted)
        if trusted:
            self.scatter.learn(log_ratios(counted))
        return counted if trusted else every

    def _read(self, both: Sequence[tuple[Turn, Turn]], factor: float) -> tuple[list[Pair], list[Pair]]:
        """Return the step seconds of all turns in which both made steps, and of those that were undisturbed."""
        full = [turns for turns in both if all(turn.step_seconds for turn in turns)]
        if not full:
            return [], []
        baseline_seconds = step_seconds_of_turns([mine for mine, _ in full], self._steps_per_epoch)
        other_seconds = step_seconds_of_turns([others for _, others in full], self._steps_per_epoch, factor)
        every = list(zip(baseline_seconds, other_seconds, strict=True))
        counts = undisturbed(
            full,
            every,
            usual_seconds([*self.baseline_seconds, *baseline_seconds][-RECENT_TURNS:]),
        )
        return every, [pair for pair, counted in zip(every, counts, strict=True) if counted]


def later_order(plan: TurnPlan, later_steps: int) -> GiveTurn:
    """Return the order of a process' first turn, before which it makes so many steps that do not count."""
    return msgspec.structs.replace(plan.order, uncounted_steps=max(plan.order.uncounted_steps, later_steps))


def _steps(alternated: Sequence[tuple[Turn, Turn]]) -> int:
    """Return how many steps each side has made at least."""
    return min(sum(len(both[side].step_seconds) for both in alternated) for side in (0, 1))
