"""Fresh pairs of processes, the baseline's and a candidate's, measured in turns."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from autoaccel.bench.bench import FreshPair
from autoaccel.bench.limits import MAX_TURNS
from autoaccel.bench.settling import Settling
from autoaccel.bench.turns import OwnFailed, TurnTaker, blame, divergence, lacks_room
from autoaccel.records.messages import Failure, Finished, Measure
from autoaccel.records.proof import ProofPair
from autoaccel.records.settings import Settings, settings_key
from autoaccel.runs.run_folder import PairsFor
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.search.instruments import Reading
from autoaccel.statistics.accuracy import pair_up
from autoaccel.statistics.turn_plan import pair_turns
from autoaccel.workers.measuring import Measuring


@dataclass
class FreshPairs:
    """Starts a pair of processes for each reading, one under the settings that others are compared with."""

    run: TuningRun
    reference: Settings  # the user's own; of contributions the recipe's
    taker: TurnTaker  # knows what is usual of the reference
    is_apart: bool = False
    """Whether two processes must not be alive together; found out where that is not known."""
    purpose: PairsFor = "proof"  # what the pairs are kept as
    fresh: bool = False  # whether the processes must be programs of their own, where forking would cost less
    earlier: Sequence[ProofPair] = ()
    """What an earlier part of the run has measured, in its order, is not measured again."""

    def __post_init__(self) -> None:
        """Begin with no pair measured."""
        self._settling = Settling(self.taker.plan)
        self._started = 0
        self._earlier: defaultdict[str, deque[ProofPair]] = defaultdict(deque)
        for pair in self.earlier:
            self._earlier[settings_key(pair.settings)].append(pair)

    @property
    def disturbed_share(self) -> float:
        """Share of the turns that were disturbed."""
        return self.taker.disturbed / max(1, len(self.taker.baseline_seconds) - 1)

    def compare(self, settings: Settings, how: FreshPair) -> Reading | Failure:
        """Return what a pair shows: an earlier one, if that was asked for the same."""
        left = self._earlier[settings_key(settings)]
        if left and (left[0].seed, left[0].steps) == (how.seed, how.steps):
            pair = left.popleft()
            found = self.taker.read_apart(pair.baseline, pair.recipe)
            return self._watched(settings, found._replace(trained=pair.trained), pair.steps)
        left.clear()  # what follows answers other questions
        self._started += 1
        names_of_sides = ("baseline", "recipe") if self.purpose == "proof" else ("recipe", "without")
        names = [f"{self.purpose}-{self._started:02d}-{side}" for side in names_of_sides]
        task = Measure(seed=how.seed, steps=how.steps)
        reading = self._measure(settings, task, names)
        if isinstance(reading, OwnFailed) and reading.failure.kind != "hung":
            reading = self._measure(settings, task, names)  # it may have been chance
        if isinstance(reading, OwnFailed):
            is_recipe = self.purpose == "contributions"
            reading = reading.failure if is_recipe else blame(reading, self.run.request.workload)
        if isinstance(reading, Failure):
            self.run.starter.check_room()  # no settings are to blame for a disk that is full
        return reading

    def _measure(self, settings: Settings, task: Measure, names: list[str]) -> Reading | Failure | OwnFailed:
        if self.is_apart:
            return self._measure_apart(settings, task, names)
        reading = self._measure_together(settings, task, names)
        failure = reading.failure if isinstance(reading, OwnFailed) else reading
        if isinstance(failure, Failure) and lacks_room(failure, self.run.starter.on_accelerator):
            self.is_apart = True  # alone each of the two may have room enough
            return self._measure_apart(settings, task, names)
        return reading

    def _watched(self, settings: Settings, reading: Reading, steps: int | None) -> Reading:
        """Return a reading that says whether a trend was seen with it; only pairs that do not train look later.

        Of processes that were not alive together the machine may have made it.
        """
        if self.is_apart:
            return reading
        if steps is not None:
            return reading._replace(trusted=reading.trusted and not self._settling.later_steps(settings))
        return reading._replace(trend=self._settling.take_in(settings, reading.pairs, reading.trusted))

    def _measure_together(self, settings: Settings, task: Measure, names: list[str]) -> Reading | Failure | OwnFailed:
        """Return what two processes show that are alive together, in turns."""
        starter, clock, steps = self.run.starter, self.run.clock, task.steps
        measuring = starter.start_all_measuring(
            task, dict(zip(names, (self.reference, settings), strict=True)), clock.left, self.fresh
        )
        try:
            reference, other = measuring
            if isinstance(reference, Failure):
                return OwnFailed(reference)
            if isinstance(other, Failure):
                return other
            most = self._turns_worth((reference, other)) if steps is None else MAX_TURNS
            later = self._settling.later_steps(settings) if steps is None else 0
            reading = self.taker.take(reference, other, lambda pairs: len(pairs) >= most, clock.left, later)
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
        plan = self.taker.plan
        speedup = plan.step_seconds / other.warm_step_seconds  # of its own steps, whatever their batch
        return pair_turns(plan, start_seconds, self.taker.scatter.deviation, speedup)

    def _measure_apart(self, settings: Settings, task: Measure, names: list[str]) -> Reading | Failure | OwnFailed:
        """Return what two whole processes show, one after the other; which one begins changes from pair to pair."""
        clock = self.run.clock
        sides = (self.reference, settings)
        measured: dict[int, Measuring] = {}
        ended: dict[int, Finished | Failure] = {}
        most = 0
        for side in (0, 1) if self._started % 2 else (1, 0):
            started = self.run.starter.start_all_measuring(task, {names[side]: sides[side]}, clock.left, self.fresh)
            measuring = started[0]
            if isinstance(measuring, Failure):
                return measuring if side else OwnFailed(measuring)
            try:
                # As many of the second as of the first.
                most = most or (self._turns_worth((measuring, measuring)) if task.steps is None else MAX_TURNS)
                later = self._settling.later_steps(settings) if task.steps is None else 0
                if failure := self.taker.take_alone(measuring, most, lambda: clock.left, later):
                    return failure if side else OwnFailed(failure)
                if task.steps is not None:
                    ended[side] = measuring.finish(clock.left)
            finally:
                measuring.close()
            measured[side] = measuring
        reference, other = measured[0], measured[1]
        if failure := divergence(reference, other):
            return failure
        reading = self.taker.read_apart(reference.measurement, other.measurement)
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
        self.run.folder.add_pair(pair, self.purpose)
        return self._watched(other.settings, reading._replace(trained=trained), task.steps)
