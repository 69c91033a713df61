"""Best: the settings that a run ends with, and what proves them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from autoaccel.bench.bench import Bench
from autoaccel.proof.course import Proof
from autoaccel.records.accuracy import Accuracy
from autoaccel.records.conclusion import KeptBecause, LeftOpen
from autoaccel.records.recipe import Contribution, Interaction, Projection
from autoaccel.records.settings import Settings, describe_change
from autoaccel.records.trial import Comparison, Measurement
from autoaccel.records.workload import TrainingFacts
from autoaccel.report.conclusions import faster_words, kept_words, left_open_words
from autoaccel.search.starts import start_of
from autoaccel.statistics.comparison import CONFIDENCE
from autoaccel.statistics.runs import CompileSeconds, run_speedup


class FirstProven(NamedTuple):
    """When a run first had a recipe, whatever it ended with, in seconds since its start."""

    speed: float | None  # was proven of the first settings that became a recipe; None where their proof did not note it
    recipe: float  # was written of them, after their metric was proven as well


@dataclass(frozen=True)
class Best:
    """The settings that a run ends with: those that were proven, else the user's own."""

    settings: Settings
    comparison: Comparison
    compile_seconds: CompileSeconds
    baseline_compile_seconds: CompileSeconds
    baseline_step_seconds: float
    kept_because: KeptBecause | None = None  # why they are the user's own; None: they were proven
    accuracy: Accuracy | None = None
    first: FirstProven | None = None
    contributions: tuple[Contribution, ...] = ()
    interaction: Interaction | None = None
    left_open: LeftOpen | None = None  # a better one whose proof a larger budget may complete

    @classmethod
    def own(cls, baseline: Bench, why: KeptBecause) -> Best:
        """Return the user's own settings, for this reason."""
        unchanged = Comparison(
            speedup=1.0, low=1.0, high=1.0, verdict="within noise", confidence=CONFIDENCE, process_pairs=0, turns=0
        )
        compiling = start_of(baseline.settings, baseline.measurement)
        return cls(baseline.settings, unchanged, compiling, compiling, baseline.step_seconds, why)

    @classmethod
    def proven(
        cls,
        settings: Settings,
        proof: Proof,
        starts: tuple[CompileSeconds, CompileSeconds],
        first: FirstProven | None = None,
    ) -> Best:
        """Return settings that were proven, with nothing known yet of what each contributes.

        Args:
            settings: That were.
            proof: Of these settings.
            starts: What slower first steps cost with the settings, and with the user's.
            first: When the run first had a recipe.
        """
        assert proof.comparison is not None  # nothing is proven without
        return cls(
            settings=settings,
            comparison=proof.comparison,
            compile_seconds=starts[0],
            baseline_compile_seconds=starts[1],
            baseline_step_seconds=proof.baseline_step_seconds,
            accuracy=proof.accuracy,
            first=first,
        )

    def summary(self, baseline_settings: Settings) -> str:
        """Return the result of a run in a sentence; where nothing was proven, with what a larger budget may prove."""
        if self.kept_because is None:
            return faster_words(self.comparison, describe_change(self.settings, baseline_settings))
        words = kept_words(self.kept_because, baseline_settings)
        return f"{words} {left_open_words(self.left_open, baseline_settings)}" if self.left_open else words

    def projection(self, facts: TrainingFacts, baseline: Measurement, trainings: int) -> Projection:
        """Return how long the planned run will take, on average over this many trainings."""
        planned_steps, startup_seconds = facts.planned_steps, baseline.startup_seconds
        baseline_step, compiling = self.baseline_step_seconds, self.compile_seconds
        step_seconds = baseline_step / self.comparison.speedup
        baseline_compile_seconds, compile_seconds = (
            self.baseline_compile_seconds.average(trainings),
            compiling.average(trainings),
        )
        extra = compile_seconds - baseline_compile_seconds
        warmed_up_seconds = startup_seconds + planned_steps * step_seconds
        baseline_overhead_seconds = startup_seconds + baseline_compile_seconds
        is_proven = self.comparison.process_pairs > 0
        return Projection(
            planned_steps=planned_steps,
            startup_seconds=startup_seconds,
            compile_seconds=compile_seconds,
            step_seconds=step_seconds,
            total_seconds=warmed_up_seconds + compile_seconds,
            baseline_total_seconds=baseline_overhead_seconds + planned_steps * baseline_step,
            break_even_steps=break_even_steps(extra, step_seconds, baseline_step),
            run=run_speedup(self.comparison, planned_steps * baseline_step, baseline_overhead_seconds, extra)
            if is_proven
            else None,
            first_run_seconds=warmed_up_seconds + compiling.cold,
            later_run_seconds=warmed_up_seconds + compiling.warm,
        )


def break_even_steps(extra_seconds: float, step_seconds: float, baseline_step: float) -> int | None:
    """Return after how many steps settings with this step time make up for their slower start; None if never."""
    if extra_seconds <= 0:
        return 0
    return math.ceil(extra_seconds / (baseline_step - step_seconds)) if step_seconds < baseline_step else None
