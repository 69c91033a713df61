"""What time is worth to a search: a second saved on each training against a second of searching."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoaccel.statistics.runs import WARM_SHARE, CompileSeconds


@dataclass(frozen=True)
class Economy:
    """What time is worth: a second saved on each training against a second of searching."""

    trainings: int  # how often the training will be run with the recipe
    planned_steps: int
    step_seconds: float  # the baseline's
    startup_seconds: float
    compile_seconds: float  # the baseline's slower first steps, of an average run
    trial_seconds: float  # a first guess of what a trial takes that compiles nothing

    @property
    def baseline_total_seconds(self) -> float:
        """Projected time of an average run under the user's own settings."""
        return float(self.total_seconds(0.0, self.compile_seconds))

    def total_seconds(self, log_speedup: Any, compile_seconds: Any) -> Any:
        """Return the projected time of an average run, for numbers or arrays of them.

        The start-up is the baseline's: that of two processes differs by chance, not by their settings.
        """
        return self.startup_seconds + compile_seconds + self.planned_steps * self.step_seconds * np.exp(-log_speedup)

    def saved_seconds(self, total_seconds: float) -> float:
        """Return what all runs together save if an average one takes this long; 0 if they save nothing."""
        return self.trainings * max(0.0, self.baseline_total_seconds - total_seconds)

    def log_speedup_for(self, total_seconds: float, compile_seconds: float) -> float:
        """Return the log speed-up with which an average run takes this long; infinite if none is large enough."""
        steps_seconds = total_seconds - self.startup_seconds - compile_seconds
        if steps_seconds <= 0:
            return math.inf
        return math.log(self.planned_steps * self.step_seconds / steps_seconds)

    def cold_seconds_for(self, total_seconds: float, log_speedup: float) -> float:
        """Return what a first compilation may take if with this log speed-up an average run is to take this long.

        Below zero if it would take longer even without one.
        """
        left = total_seconds - float(self.total_seconds(log_speedup, 0.0))
        return left / CompileSeconds(1.0, WARM_SHARE).average(self.trainings)
