"""SearchTask: what is searched, and what is known of it before the first trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autoaccel.advise.candidates import first_candidates
from autoaccel.advise.compiling import first_compile_seconds
from autoaccel.advise.effects import Halving, effect_deviations, halving_means
from autoaccel.records.options import OWN_SAMPLER
from autoaccel.records.profile import Finding
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.search.economy import Economy
from autoaccel.space.change import Change
from autoaccel.space.knobs import KnobContext


@dataclass(frozen=True)
class Prior:
    """What is expected of settings before any was tried."""

    candidates: Sequence[Settings]  # what experts would try first, in their order
    deviations: Mapping[str, float]  # for each knob how much it may matter; see `Surrogate`
    halvings: Mapping[str, Halving] = field(default_factory=dict)  # what fewer of a count are expected to do
    compile_seconds: float | None = None  # that a first compilation is expected to take; None: as of a small model


def expect(space: SearchSpace, context: KnobContext, baseline: Settings, findings: Sequence[Finding]) -> Prior:
    """Return what the findings of a profile predict for a search space.

    Args:
        space: That is searched.
        context: The machine and the training.
        baseline: The user's own settings.
        findings: Of the profile.
    """
    return Prior(
        candidates=first_candidates(space, context, baseline, findings),
        deviations=effect_deviations([*space.fixed, *space.open], findings),
        halvings=halving_means(context, baseline, findings),
        compile_seconds=first_compile_seconds(context),
    )


@dataclass(frozen=True)
class SearchTask:
    """What is searched."""

    space: SearchSpace
    baseline: Settings  # the user's own
    economy: Economy
    prior: Prior
    seed: int = 0  # of what is drawn by chance
    max_trials: int | None = None  # after so many the search ends; None: it is not limited
    sampler: str = OWN_SAMPLER  # what proposes the trials; see `make_sampler`

    def change(self, settings: Settings) -> Change:
        """Return settings against the user's own, in this space."""
        return Change(settings, self.baseline, self.space)
