"""Fresh pairs of processes, the baseline's and a candidate's, measured in turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from autoaccel.bench.settling import Settling
from autoaccel.bench.turns import OwnFailed, TurnTaker, divergence, is_of_its_own, lacks_room, later_order
from autoaccel.records.messages import Failure, Finished, Measure
from autoaccel.records.proof import ProofPair
from autoaccel.records.settings import Settings
from autoaccel.runs.run_folder import PairsFor
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.search.trial_source import Reading
from autoaccel.statistics.accuracy import pair_up
from autoaccel.statistics.turn_plan import TurnPlan, TurnScatter, pair_seconds, pair_turns
from autoaccel.workers.describing import workload_error
from autoaccel.workers.measuring import Measuring

_MAX_TURNS = 40  # more could not make a pair's ratio better: its processes' luck is larger by then


class Reference(NamedTuple):
    """What candidates are measured against."""

    settings: Settings  # the baseline's; of contributions the recipe's
    steps_per_epoch: int
    plan: TurnPlan  # how turns are taken
    usual_seconds: float  # what a step takes while nothing disturbs it
    is_apart: bool = False  # whether two processes must not be alive together; found out where that is not known
    scatter: TurnScatter | None = None  # what this run has shown of how much turns scatter; None: nothing yet

    def pair_seconds(self, ready_seconds: float, speedup: float = 1.0) -> float:
        """Return about what a fresh pair takes that does not train to its end.

        Args:
            ready_seconds: What it takes until a process has warmed up.
            speedup: Of the candidate's steps.
        """
        deviation = self.scatter.deviation if self.scatter else self.plan.usual_deviation
        turns = pair_turns(self.plan, 2 * ready_seconds, deviation, speedup)
        return pair_seconds(self.plan, ready_seconds, turns, speedup)


class FreshPairs:
    """Starts a pair of processes for each reading."""

    def __init__(self, run: TuningRun, reference: Reference, purpose: PairsFor = "proof", fresh: bool = False) -> None:
        """Begin with no pair measured.

        Args:
            run: What all stages share.
            reference: What candidates are measured against.
            purpose: What the pairs are kept as.
            fresh: Whether the processes must be programs of their own, where forking would cost less.
        """
        self._run = run
        self._reference_settings = reference.settings
        usual = [reference.usual_seconds]
        self._taker = TurnTaker(reference.plan, reference.steps_per_epoch, usual, reference.scatter)
        self._settling = Settling(reference.plan)
        self._fresh = fresh
        self._purpose = purpose
        self._apart = reference.is_apart
        self._started = 0

    @property
    def disturbed_share(self) -> float:
        """Share of the turns that were disturbed."""
        return self._taker.disturbed / max(1, len(self._taker.baseline_seconds) - 1)

    def measure(self, settings: Settings, seed: int, steps: int | None) -> Reading | Failure:
        """Return what one pair shows, both from this seed.

        Args:
            settings: The candidate's.
            seed: Of the first weights and the order of the data.
            steps: After so many the trainings end and are evaluated; None: they are not.
        """
        self._started += 1
        names_of_sides = ("baseline", "recipe") if self._purpose == "proof" else ("recipe", "without")
        names = [f"{self._purpose}-{self._started:02d}-{side}" for side in names_of_sides]
        task = Measure(seed=seed, steps=steps)
        reading = self._measure(settings, task, names)
        if isinstance(reading, OwnFailed) and reading.failure.kind != "hung":
            reading = self._measure(settings, task, names)  # it may have been chance
        if isinstance(reading, OwnFailed):
            if self._purpose == "proof" and is_of_its_own(reading.failure):
                raise workload_error(reading.failure, self._run.request.workload, "under your own settings")
            reading = reading.failure
        if isinstance(reading, Failure):
            self._run.starter.check_room()  # no settings are to blame for a disk that is full
        return reading

    def _measure(self, settings: Settings, task: Measure, names: list[str]) -> Reading | Failure | OwnFailed:
        if self._apart:
            return self._measure_apart(settings, task, names)
        reading = self._measure_together(settings, task, names)
        failure = reading.failure if isinstance(reading, OwnFailed) else reading
        if isinstance(failure, Failure) and lacks_room(failure, self._run.starter.on_accelerator):
            self._apart = True  # alone each of the two may have room enough
            return self._measure_apart(settings, task, names)
        return reading

    def recall(self, pair: ProofPair) -> Reading:
        """Return what a pair showed that an earlier part of the run measured."""
        reading = self._taker.read_apart(pair.baseline, pair.recipe)._replace(trained=pair.trained)
        return self._watched(pair.settings, reading, pair.steps)

    def _watched(self, settings: Settings, reading: Reading, steps: int | None) -> Reading:
        """Return a reading that says whether a trend was seen with it; only pairs that do not train look later.

        Of processes that were not alive together the machine may have made it.
        """
        if self._apart:
            return reading
        if steps is not None:
            return reading._replace(trusted=reading.trusted and not self._settling.later_steps(settings))
        return reading._replace(trend=self._settling.take_in(settings, reading.pairs, reading.trusted))

    def _measure_together(self, settings: Settings, task: Measure, names: list[str]) -> Reading | Failure | OwnFailed:
        """Return what two processes show that are alive together, in turns."""
        starter, clock, steps = self._run.starter, self._run.clock, task.steps
        measuring = starter.start_all_measuring(
            task, dict(zip(names, (self._reference_settings, settings), strict=True)), clock.left, self._fresh
        )
        try:
            reference, other = measuring
            if isinstance(reference, Failure):
                return OwnFailed(reference)
            if isinstance(other, Failure):
                return other
            most = self._turns_worth((reference, other)) if steps is None else _MAX_TURNS
            later = self._settling.later_steps(settings) if steps is None else 0
            reading = self._taker.take(reference, other, lambda pairs: len(pairs) >= most, clock.left, later)
            if not isinstance(reading, Reading):
                return reading
            trains = steps is not None and reading.pairs
            ended = [side.finish(clock.left) for side in (reference, other)] if trains else []
            return self._keep(task, reading, (reference, other), ended)
        finally:
            for side in measuring:
                if not isinstance(side, Failure):
                    side.close()

    def _turns_worth(self, started: tuple[Measuring, Measuring]) -> int:
        """Return how many turns two processes are worth that have just been started."""
        reference, other = started
        start_seconds = reference.ready_seconds + other.ready_seconds
        plan = self._taker.plan
        speedup = plan.step_seconds / other.warm_step_seconds  # of its own steps, whatever their batch
        return pair_turns(plan, start_seconds, self._taker.scatter.deviation, speedup)

    def _measure_apart(self, settings: Settings, task: Measure, names: list[str]) -> Reading | Failure | OwnFailed:
        """Return what two whole processes show, one after the other; which one begins changes from pair to pair."""
        clock = self._run.clock
        sides = (self._reference_settings, settings)
        measured: dict[int, Measuring] = {}
        ended: dict[int, Finished | Failure] = {}
        most = 0
        for side in (0, 1) if self._started % 2 else (1, 0):
            started = self._run.starter.start_all_measuring(task, {names[side]: sides[side]}, clock.left, self._fresh)
            measuring = started[0]
            if isinstance(measuring, Failure):
                return measuring if side else OwnFailed(measuring)
            try:
                # As many of the second as of the first.
                most = most or (self._turns_worth((measuring, measuring)) if task.steps is None else _MAX_TURNS)
                later = self._settling.later_steps(settings) if task.steps is None else 0
                for number in range(most):
                    order = self._taker.plan.order if number else later_order(self._taker.plan, later)
                    turn = measuring.take_turn(order, clock.left)
                    if isinstance(turn, Failure):
                        return turn if side else OwnFailed(turn)
                    if not turn.step_seconds:
                        break
                if task.steps is not None:
                    ended[side] = measuring.finish(clock.left)
            finally:
                measuring.close()
            measured[side] = measuring
        reference, other = measured[0], measured[1]
        if failure := divergence(reference, other):
            return failure
        reading = self._taker.read_apart(reference.measurement, other.measurement)
        return self._keep(task, reading, (reference, other), [ended[side] for side in sorted(ended)])

    def _keep(
        self,
        task: Measure,
        reading: Reading,
        measuring: tuple[Measuring, Measuring],
        ended: Sequence[Finished | Failure],
    ) -> Reading | Failure | OwnFailed:
        """Return what a pair shows, with the metrics of those that trained to their end; write it down.

        A training that diverges under the user's own settings leaves the metric open, whatever the other comes to.
        """
        if not reading.pairs:
            return Failure(kind="invalid", message="the training is too short for a turn")
        own, others = ended or (None, None)
        if isinstance(own, Failure) and own.kind == "diverged":
            own = msgspec.structs.replace(own, message=f"under your own settings, {own.message}")
            return reading._replace(own_failure=own)
        if isinstance(own, Failure):
            return OwnFailed(own)
        if isinstance(others, Failure):
            return others
        trained = pair_up(own, others) if own is not None and others is not None else None
        reference, other = measuring
        pair = ProofPair(other.settings, task.seed, reference.measurement, other.measurement, trained, task.steps)
        self._run.folder.add_pair(pair, self._purpose)
        return self._watched(other.settings, reading._replace(trained=trained), task.steps)
