"""LiveBench: the user's own settings, measured first and kept alive beside every trial."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping

import msgspec

from autoaccel.bench.bench import FreshPair, Reference
from autoaccel.bench.pairs import FreshPairs
from autoaccel.bench.rounding import judge_rounding, recorded_steps
from autoaccel.bench.turns import OwnFailed, TurnTaker, blame, divergence, is_of_its_own, lacks_room
from autoaccel.machine.gpus import fills_a_gpu, read_gpu_use
from autoaccel.records.messages import Failure
from autoaccel.records.progress import Note
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings, settings_key
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import TrainingFacts
from autoaccel.runs.least_run import least_costs, least_times, too_slow
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.search.instruments import QuickLook, Reading
from autoaccel.space.room import fit_together
from autoaccel.statistics.disturbance import RECENT_TURNS, usual_seconds
from autoaccel.statistics.steps import step_seconds_of_turns
from autoaccel.statistics.turn_plan import (
    TurnPlan,
    pair_seconds,
    pair_turns,
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
        earlier = run.folder.load_pairs("proof")
        self._proofs = FreshPairs(run, settings, self._taker_of(None), self.is_apart, earlier=earlier)
        self._contributions: dict[str, FreshPairs] = {}  # by the recipe

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

    def pair_seconds(self, speedup: float = 1.0, against: Reference | None = None) -> float:
        """Return about what a fresh pair takes that does not train to its end.

        Args:
            speedup: Of the candidate's steps over those of what it is compared with.
            against: That; None: the baseline.
        """
        plan, ready_seconds = self._plan_of(against), self.ready_again_seconds
        turns = pair_turns(plan, 2 * ready_seconds, self._taker.scatter.deviation, speedup)
        return pair_seconds(plan, ready_seconds, turns, speedup)

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
    def disturbed_share(self) -> float:
        """Share of its turns that were disturbed, or of those of pairs, where that is more."""
        alone = self._taker.disturbed / len(self._taker.baseline_seconds)
        return max(alone, self._proofs.disturbed_share)

    @property
    def spent_on(self) -> Mapping[str, float]:
        """Seconds by what processes did in them."""
        return self._run.starter.spent_on

    @property
    def compared_steps(self) -> frozenset[int]:
        """After how many steps the user's own updates are kept in the run's folder."""
        return recorded_steps(self._run.folder.rounding)

    def compare_updates(self, settings: Settings, has_time: Callable[[int], bool]) -> RoundingEvidence | Failure:
        """Return what single updates say of settings that only round; see `judge_rounding`."""
        self.rest()
        return judge_rounding(self._run, self.settings, settings, has_time)

    def compare(self, settings: Settings, how: QuickLook | FreshPair) -> Reading | Failure:
        """Return what settings show in a process of their own.

        For a quick look in turns with the baseline that is alive; apart from it if there is no room for both. A fresh
        pair has what the baseline needs until then.
        """
        if isinstance(how, FreshPair):
            self.rest()
            return self._pairs_of(how.against).compare(settings, how)
        reading = self._measure(settings, how)
        if isinstance(reading, Failure):
            self._run.starter.check_room()  # no settings are to blame for a disk that is full
        self._tell_divergence()
        return reading

    def _pairs_of(self, against: Reference | None) -> FreshPairs:
        """Return what starts pairs of some settings and others, and knows those that it has started."""
        if against is None:
            return self._proofs
        key = settings_key(against.settings)
        if key not in self._contributions:
            taker = self._taker_of(against)
            self._contributions[key] = FreshPairs(self._run, against.settings, taker, self.is_apart, "contributions")
        return self._contributions[key]

    def _plan_of(self, against: Reference | None) -> TurnPlan:
        return self.plan if against is None else self.plan._replace(step_seconds=against.step_seconds)

    def _taker_of(self, against: Reference | None) -> TurnTaker:
        """Return what has fresh pairs take turns, and learns with what has the trials take theirs."""
        usual = self.usual_seconds if against is None else against.step_seconds
        return TurnTaker(self._plan_of(against), self.facts.steps_per_epoch, [usual], self._taker.scatter)

    def _measure(self, settings: Settings, look: QuickLook) -> Reading | Failure:
        if self.is_apart:
            return self._measure_apart(settings, look.name, look.timeout_seconds)
        deadline = time.perf_counter() + look.timeout_seconds
        reading = self._measure_beside(settings, look)
        if isinstance(reading, OwnFailed):
            # It may have been chance, or the trial that took its memory; the other process tells which.
            deadline = time.perf_counter() + look.timeout_seconds
            reading = self._measure_beside(settings, look)
        if isinstance(reading, OwnFailed):
            reading = blame(reading, self._run.request.workload)
        on_accelerator = not self.facts.device.startswith("cpu")
        if isinstance(reading, Failure) and lacks_room(reading, on_accelerator):
            # Alone it may have room enough.
            is_busy = reading.kind == "busy"
            reading = self._measure_apart(settings, look.name, deadline - time.perf_counter())
            if isinstance(reading, Reading):
                # If it took no more memory than the baseline, two such processes do not fit, whatever NVML reported.
                no_more = reading.measurement.peak_bytes <= self.measurement.peak_bytes
                self.is_apart = is_busy or no_more
        return reading

    def _measure_beside(self, settings: Settings, look: QuickLook) -> Reading | Failure | OwnFailed:
        """Measure settings in turns with a baseline that is alive."""
        deadline = time.perf_counter() + look.timeout_seconds
        candidate = self._run.starter.start_measuring(settings, look.name, look.timeout_seconds)
        if isinstance(candidate, Failure):
            return candidate
        if self._rests:
            self._measuring = self._start()
            self._rests = False
        self._measuring.turns.clear()
        try:
            reading = self._taker.take(self._measuring, candidate, look.enough, deadline - time.perf_counter())
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
            if failure is not None and (is_last or not is_of_its_own(failure)):
                return blame(OwnFailed(failure), self._run.request.workload)
            if failure is None:
                break
        if failure := divergence(self._measuring, candidate):
            return failure
        half = self._turns_apart // 2
        around = (*before[-half:], *self._measuring.turns[:half])
        baseline = msgspec.structs.replace(self._measuring.measurement, turns=around)
        return self._taker.read_apart(baseline, candidate.measurement)

    def _take_turns_of(self, measuring: Measuring, deadline: float) -> Failure | None:
        least_seconds = 10 * self.plan.turn_seconds()
        return self._taker.take_alone(
            measuring, self._turns_apart, lambda: max(deadline - time.perf_counter(), least_seconds)
        )

    def rest(self) -> None:
        """End its process until the next quick look."""
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
