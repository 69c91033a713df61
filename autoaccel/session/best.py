"""Best: the settings that a run ends with, and what proves them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from autoaccel.bench.bench import Bench
from autoaccel.proof.proof import Proof
from autoaccel.records.accuracy import Accuracy
from autoaccel.records.conclusion import KeptBecause, LeftOpen
from autoaccel.records.recipe import Contribution, Interaction
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison
from autoaccel.search.starts import start_of
from autoaccel.statistics.comparison import CONFIDENCE
from autoaccel.statistics.runs import CompileSeconds


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
