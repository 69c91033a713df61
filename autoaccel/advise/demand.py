"""What one process of a training needs, by its profile: what the values of counts are worked out from."""

from __future__ import annotations

import msgspec

from autoaccel.records.conditions import TrainingConditions
from autoaccel.records.profile import Demand, Profile
from autoaccel.records.workload import TrainingFacts


def demand_of(profile: Profile, conditions: TrainingConditions | None, facts: TrainingFacts) -> Demand:
    """Return what one process of the training needs, as its profile shows it.

    Loading takes as long as loading some samples and making a batch of them took. Where samples were not looked at, it
    is the wait of a training that loads for itself, and unknown for one with workers.
    """
    step_seconds = profile.phase_seconds or profile.step_seconds
    waited = step_seconds * profile.phases.get("data wait", 0.0)
    demand = Demand(step_seconds=step_seconds - waited, peak_bytes=profile.peak_bytes)
    samples = conditions.samples if conditions is not None else None
    if conditions is not None and samples is not None:
        count, made = conditions.batch_samples, samples.collate_seconds or 0.0
        return msgspec.structs.replace(
            demand,
            loading_seconds=count * samples.seconds + made,
            busy_seconds=count * samples.busy_seconds + made,
        )
    return demand if facts.loader_workers else msgspec.structs.replace(demand, loading_seconds=waited)
