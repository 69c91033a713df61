"""Yardstick: the user's own settings, measured first and kept alive beside every trial."""

from __future__ import annotations

from autoaccel.launch.runner import Measuring
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Failure, Measurement
from autoaccel.records.workload import TrainingFacts
from autoaccel.session.run import Run
from autoaccel.session.workers import turn_seconds_for, workload_error
from autoaccel.statistics.steps import settled_step_seconds

_TURNS_ALONE = 6


class Yardstick:
    """The user's own training in a process that is paused except for its turns.

    Every trial is measured in turns with it, so that both meet the same disturbances of the machine.
    """

    def __init__(self, run: Run, facts: TrainingFacts, settings: Settings) -> None:
        """Start it and measure it alone.

        Raises:
            WorkloadFailedError: If the training fails under the user's own settings.
            BudgetSpentError: If the budget does not suffice.
        """
        self._run = run
        self.settings = settings
        self.facts = facts
        self.measuring = self._start()
        self.turn_seconds = turn_seconds_for(self.measuring.warm_step_seconds)
        for _ in range(_TURNS_ALONE):
            self._take_turn()
        self.measurement: Measurement = self.measuring.measurement
        self.step_seconds = settled_step_seconds(self.measurement.turns, facts.steps_per_epoch)

    @property
    def overhead_seconds(self) -> float:
        """What a run takes beside its settled steps: start-up and slower first steps."""
        return self.measurement.startup_seconds + self.measurement.compile_seconds

    @property
    def total_seconds(self) -> float:
        """Projected time of the whole planned run under the user's own settings."""
        return self.overhead_seconds + self.facts.planned_steps * self.step_seconds

    def projected_total(self, compile_seconds: float, speedup: float) -> float:
        """Return the projected time of the whole planned run for settings with this speed-up.

        The start-up is the baseline's: that of two processes differs by chance, not by their settings.
        """
        steps_seconds = self.facts.planned_steps * self.step_seconds / speedup
        return self.measurement.startup_seconds + compile_seconds + steps_seconds

    def revive(self) -> None:
        """Start the process again after it died, most often beside a trial that took its memory."""
        self.measuring.close()
        self.measuring = self._start()

    def _start(self) -> Measuring:
        timeout = self._run.clock.timeout("the baseline was measured", share=0.5)
        measuring = self._run.runner.start_measuring(self.settings, "baseline", timeout)
        if isinstance(measuring, Failure):
            raise workload_error(measuring, self._run.request.workload, "under your own settings")
        return measuring

    def _take_turn(self) -> None:
        timeout = self._run.clock.timeout("the baseline was measured", share=0.5)
        turn = self.measuring.take_turn(self.turn_seconds, timeout)
        if isinstance(turn, Failure):
            raise workload_error(turn, self._run.request.workload, "under your own settings")
