"""What one process of a training needs, by its profile: what the values of counts are worked out from."""

from __future__ import annotations

import msgspec

from autoaccel.records.conditions import TrainingConditions
from autoaccel.records.profile import Demand, Profile
from autoaccel.records.workload import TrainingFacts

_BYTES_OF_A_NUMBER = 4  # of a gradient, unless it is shorter


def demand_of(profile: Profile, conditions: TrainingConditions | None, facts: TrainingFacts) -> Demand:
    """Return what one process of the training needs, as its profile shows it.

    Loading takes as long as loading some samples and making a batch of them took. Where samples were not looked at, it
    is the wait of a training that loads for itself, and unknown for one with workers. Of the memory that a step takes,
    gradients and what an update makes of them, as much again, do not grow with the batch.
    """
    step_seconds = profile.phase_seconds or profile.step_seconds
    waited = step_seconds * profile.phases.get("data wait", 0.0)
    demand = Demand(
        step_seconds=step_seconds - waited, peak_bytes=profile.peak_bytes, batch_bytes=_batch_bytes(profile)
    )
    samples = conditions.samples if conditions is not None else None
    if conditions is not None and samples is not None:
        count, made = conditions.batch_samples, samples.collate_seconds or 0.0
        return msgspec.structs.replace(
            demand,
            loading_seconds=count * samples.seconds + made,
            busy_seconds=count * samples.busy_seconds + made,
        )
    return demand if facts.loader_workers else msgspec.structs.replace(demand, loading_seconds=waited)


def _batch_bytes(profile: Profile) -> int | None:
    if profile.memory is None:
        return None
    return max(0, profile.memory.bytes_above_start - 2 * _BYTES_OF_A_NUMBER * profile.parameters)
