"""LiveBench: the user's own settings, measured first and kept alive beside every trial."""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from autoaccel.bench.bench import PairSource
from autoaccel.bench.pairs import FreshPairs, Reference
from autoaccel.bench.resuming import ResumedPairs
from autoaccel.bench.rounding import judge_rounding, recorded_steps
from autoaccel.bench.turns import OwnFailed, TurnTaker, divergence, is_of_its_own, lacks_room
from autoaccel.machine.gpus import fills_a_gpu, read_gpu_use
from autoaccel.records.messages import Failure
from autoaccel.records.progress import Note
from autoaccel.records.proof import ProofPair
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import TrainingFacts
from autoaccel.runs.least_run import least_costs, least_times, too_slow
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.search.trial_source import Reading
from autoaccel.space.room import fit_together
from autoaccel.statistics.disturbance import RECENT_TURNS, usual_seconds
from autoaccel.statistics.steps import step_seconds_of_turns
from autoaccel.statistics.turn_plan import (
    Enough,
    TurnPlan,
    pair_seconds,
    plan_turns,
    trial_seconds,
    turns_worth,
)
from autoaccel.units import format_duration
from autoaccel.workers.describing import workload_error
from autoaccel.workers.measuring import Measuring


class LiveBench:
    """The user's own training in a process that is paused except for its turns.

    Every trial is measured in turns with it, so that both meet the same disturbances of the machine. Its own times
    tell which turns were disturbed so much that they say nothing.
    """

    def __init__(
        self,
        run: TuningRun,
        facts: TrainingFacts,
        settings: Settings,
        warmed_up: Callable[[Measuring], None] | None = None,
        memory_bytes: float = math.inf,
    ) -> None:
        """Start it and measure it alone.

        Args:
            run: What all stages share.
            facts: Of the training.
            settings: The user's own.
            warmed_up: Told as soon as the first steps are made; what it raises ends the measurement.
            memory_bytes: What this computer has.

        Raises:
            WorkloadFailedError: If the training fails under the user's own settings.
            BudgetSpentError: If the budget does not suffice.
        """
        self._run = run
        self.settings = settings
        self.facts = facts
        self._rests = False
        self._pairs: FreshPairs | None = None  # of the proofs
        unused = read_gpu_use()
        self._measuring = self._start()
        if warmed_up is not None:
            warmed_up(self._measuring)
        for name, reason in self._measuring.stated_in_vain.items():
            run.tell(Note(f"{name}, set in Training(settings=...), had no effect: {reason}"))
        plan = plan_turns(self._measuring.warm_step_seconds, facts.device)
        self.ready_seconds = self._measuring.ready_seconds
        """What it took until its process was warm."""
        self.ready_again_seconds = self._measuring.ready_again_seconds
        """The same without the steps that only showed when it was."""
        for _ in range(plan.turns_alone):
            self._take_turn(plan)
        self.measurement: Measurement = self._measuring.measurement
        self._has_told_divergence = False
        self._tell_divergence()
        fills_memory = facts.device == "cpu" and not fit_together(self.measurement.peak_bytes, memory_bytes)
        self.is_apart = fills_memory or fills_a_gpu(unused, read_gpu_use())
        """Whether it must not be alive beside a trial: a GPU, or the memory, has no room for two."""
        if fills_memory:
            run.tell(Note("memory has no room for two processes of this training: none is alive beside a trial"))
        if self.is_apart:
            self.rest()
        baseline_seconds = step_seconds_of_turns(self.measurement.turns, facts.steps_per_epoch)
        self.plan = plan_turns(statistics.median(baseline_seconds), facts.device)
        """How turns are taken, in the trials and in the proof."""
        self._taker = TurnTaker(self.plan, facts.steps_per_epoch, baseline_seconds)  # knows every turn it ever took

    @property
    def step_seconds(self) -> float:
        """What its step takes: the median over all turns that it has taken so far, disturbed ones too."""
        return statistics.median(self._taker.baseline_seconds)

    def trial_seconds(self, speedup: float = 1.0) -> float:
        """Return about what a trial takes that compiles nothing.

        Args:
            speedup: Of the candidate's steps over the baseline's.
        """
        if self.is_apart:  # the baseline gets ready once more, too
            return pair_seconds(self.plan, self.ready_seconds, self._turns_apart, speedup)
        turns = turns_worth(self.plan, self.ready_seconds, self._taker.scatter.deviation, speedup)
        return trial_seconds(self.plan, self.ready_seconds, turns, speedup)

    def pair_seconds(self, speedup: float = 1.0) -> float:
        """Return about what a fresh pair takes that does not train to its end.

        Args:
            speedup: Of the candidate's steps over the baseline's.
        """
        return self.reference.pair_seconds(self.ready_again_seconds, speedup)

    @property
    def _turns_apart(self) -> int:
        """Turns of each process where they cannot be alive together: half of them before a trial, half after it."""
        return 2 * self.plan.min_turns

    @property
    def overhead_seconds(self) -> float:
        """What a run takes beside its settled steps."""
        return self.measurement.overhead_seconds

    @property
    def total_seconds(self) -> float:
        """Projected time of the whole planned run under the user's own settings."""
        return self.overhead_seconds + self.facts.planned_steps * self.step_seconds

    @property
    def usual_seconds(self) -> float:
        """What its step takes while nothing disturbs it."""
        return usual_seconds(self._taker.baseline_seconds[-RECENT_TURNS:])

    @property
    def reference(self) -> Reference:
        """What pairs of processes are measured against."""
        return Reference(
            settings=self.settings,
            steps_per_epoch=self.facts.steps_per_epoch,
            plan=self.plan,
            usual_seconds=self.usual_seconds,
            is_apart=self.is_apart,
            scatter=self._taker.scatter,
        )

    @property
    def disturbed_share(self) -> float:
        """Share of its turns that were disturbed, or of those of pairs, where that is more."""
        alone = self._taker.disturbed / len(self._taker.baseline_seconds)
        return max(alone, self._pairs.disturbed_share if self._pairs else 0.0)

    @property
    def spent_on(self) -> Mapping[str, float]:
        """Seconds by what processes did in them."""
        return self._run.starter.spent_on

    @property
    def compared_steps(self) -> frozenset[int]:
        """After how many steps the user's own updates are kept in the run's folder."""
        return recorded_steps(self._run.folder.rounding)

    def pairs(self, earlier: Sequence[ProofPair] = ()) -> PairSource:
        """Return what measures settings in fresh pairs against the user's own, with pairs that were measured before."""
        self._pairs = FreshPairs(self._run, self.reference)
        return ResumedPairs(self._pairs, earlier)

    def pairs_against(self, settings: Settings, step_seconds: float) -> tuple[PairSource, Callable[[float], float]]:
        """Return what measures others in fresh pairs against some settings, and what a pair takes."""
        plan = self.plan._replace(step_seconds=step_seconds)
        reference = self.reference._replace(settings=settings, usual_seconds=step_seconds, plan=plan)
        pairs = FreshPairs(self._run, reference, purpose="contributions")
        return pairs, functools.partial(reference.pair_seconds, self.ready_again_seconds)

    def compare_updates(self, settings: Settings, has_time: Callable[[int], bool]) -> RoundingEvidence | Failure:
        """Return what single updates say of settings that only round; see `judge_rounding`."""
        return judge_rounding(self._run, self.settings, settings, has_time)

    def measure(self, settings: Settings, name: str, enough: Enough, timeout_seconds: float) -> Reading | Failure:
        """Measure settings in a process of their own.

        Args:
            settings: What to measure.
            name: Of its log.
            enough: When to end.
            timeout_seconds: For all.
        """
        reading = self._measure(settings, name, enough, timeout_seconds)
        if isinstance(reading, Failure):
            self._run.starter.check_room()  # no settings are to blame for a disk that is full
        self._tell_divergence()
        return reading

    def _measure(self, settings: Settings, name: str, enough: Enough, timeout_seconds: float) -> Reading | Failure:
        if self.is_apart:
            return self._measure_apart(settings, name, timeout_seconds)
        deadline = time.perf_counter() + timeout_seconds
        reading = self._measure_beside(settings, name, enough, timeout_seconds)
        if isinstance(reading, OwnFailed):
            # It may have been chance, or the trial that took its memory; the other process tells which.
            deadline = time.perf_counter() + timeout_seconds
            reading = self._measure_beside(settings, name, enough, timeout_seconds)
        if isinstance(reading, OwnFailed):
            if is_of_its_own(reading.failure):
                raise workload_error(reading.failure, self._run.request.workload, "under your own settings")
            reading = reading.failure
        on_accelerator = not self.facts.device.startswith("cpu")
        if isinstance(reading, Failure) and lacks_room(reading, on_accelerator):
            # Alone it may have room enough.
            is_busy = reading.kind == "busy"
            reading = self._measure_apart(settings, name, deadline - time.perf_counter())
            if isinstance(reading, Reading):
                # If it took no more memory than the baseline, two such processes do not fit, whatever NVML reported.
                no_more = reading.measurement.peak_bytes <= self.measurement.peak_bytes
                self.is_apart = is_busy or no_more
        return reading

    def _measure_beside(
        self, settings: Settings, name: str, enough: Enough, timeout_seconds: float
    ) -> Reading | Failure | OwnFailed:
        """Measure settings in turns with a baseline that is alive."""
        deadline = time.perf_counter() + timeout_seconds
        candidate = self._run.starter.start_measuring(settings, name, timeout_seconds)
        if isinstance(candidate, Failure):
            return candidate
        if self._rests:
            self._measuring = self._start()
            self._rests = False
        self._measuring.turns.clear()
        try:
            reading = self._taker.take(self._measuring, candidate, enough, deadline - time.perf_counter())
        finally:
            candidate.close()
        if isinstance(reading, OwnFailed):
            self.rest()
        return reading

    def _measure_apart(self, settings: Settings, name: str, timeout_seconds: float) -> Reading | Failure:
        """Measure settings in one whole process, and then the baseline in another.

        The candidate's turns are compared with those of the baseline before and after it, half of them each, so that
        a drift of the machine favours neither.
        """
        before = tuple(self._measuring.turns)
        self.rest()
        deadline = time.perf_counter() + timeout_seconds
        candidate = self._run.starter.start_measuring(settings, name, timeout_seconds)
        if isinstance(candidate, Failure):
            return candidate
        try:
            failure = self._take_turns_of(candidate, deadline)
        finally:
            candidate.close()
        if failure is not None:
            return failure
        for is_last in (False, True):
            self._measuring = self._start()
            try:
                failure = self._take_turns_of(self._measuring, deadline)
            finally:
                self._measuring.close()
            if failure is None or not is_of_its_own(failure):
                break
            if is_last:
                raise workload_error(failure, self._run.request.workload, "under your own settings")
        if failure is not None:
            return failure
        if failure := divergence(self._measuring, candidate):
            return failure
        half = self._turns_apart // 2
        around = (*before[-half:], *self._measuring.turns[:half])
        baseline = msgspec.structs.replace(self._measuring.measurement, turns=around)
        return self._taker.read_apart(baseline, candidate.measurement)

    def _take_turns_of(self, measuring: Measuring, deadline: float) -> Failure | None:
        min_seconds = 10 * self.plan.turn_seconds()
        for _ in range(self._turns_apart):
            turn = measuring.take_turn(self.plan.order, max(deadline - time.perf_counter(), min_seconds))
            if isinstance(turn, Failure):
                return turn
        return None

    def rest(self) -> None:
        """End its process until the next trial."""
        self._measuring.close()
        self._rests = True

    def _start(self) -> Measuring:
        left = self._run.clock.left
        timeout = self._run.clock.timeout("the baseline was measured", share=0.5)
        measuring = self._run.starter.start_measuring(self.settings, "baseline", timeout)
        if isinstance(measuring, Failure):
            self._run.starter.check_room()
            if measuring.kind == "hung" and self._run.stages.current is None:
                why = f"your own settings were not warmed up within {format_duration(timeout)}"
                costs = least_costs(self._run.request.budget_seconds, left, least_times(timeout, 0.0))
                raise too_slow(self._run.request.workload, costs, why, measuring.log_tail)
            raise workload_error(measuring, self._run.request.workload, "under your own settings")
        return measuring

    def _tell_divergence(self) -> None:
        """Tell once if the user's own training diverges within the run that is planned."""
        steps = self._measuring.diverged_steps
        if steps is None or self._has_told_divergence or self._measuring.finite_steps >= self.facts.planned_steps:
            return
        self._has_told_divergence = True
        self._run.tell(
            Note(
                f"under your own settings the loss is no longer a finite number after {steps:,} steps: your training "
                "diverges. Its speed is compared all the same, but nothing can show that settings keep its metric"
            )
        )

    def _take_turn(self, plan: TurnPlan) -> None:
        timeout = self._run.clock.timeout("the baseline was measured", share=0.5)
        turn = self._measuring.take_turn(plan.order, timeout)
        if isinstance(turn, Failure):
            self._run.starter.check_room()
            raise workload_error(turn, self._run.request.workload, "under your own settings")
