"""Records that tests of several parts share."""

from __future__ import annotations

from collections.abc import Sequence

from autoaccel.records.messages import Turn
from autoaccel.records.proof import TrainedPair
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import TrainingFacts
from autoaccel.search.instruments import Reading
from autoaccel.statistics.comparison import Pair

FACTS = TrainingFacts(
    metric="accuracy",
    direction="maximize",
    epochs=10,
    steps_per_epoch=20,
    batch_size=64,
    parameters=1000,
    device="cpu",
    settings={},
    optimizer="Adam",
    optimizer_has_fused=True,
    has_image_convolutions=True,
    has_convolutions=True,
    loader_adjustable=True,
    loader_workers=0,
    loader_pins_memory=False,
    batch_adjustable=True,
    batches_divisible=True,
    dataset_bytes=1 << 20,
    optimizer_has_foreach=True,
    biases=3,
    prunable_layers=3,
)
"""A small image classifier from a dataset in memory."""


def reading_of(
    pairs: Sequence[Pair],
    trusted: bool = True,
    trained: TrainedPair | None = None,
    system: tuple[float, float] = (0.0, 0.0),
) -> Reading:
    """Return what two processes show whose turns have a step each, which takes these seconds.

    Of each side's the system spends a share.
    """
    reference, other = (
        tuple(Turn((pair[side],), system_seconds=system[side] * pair[side]) for pair in pairs) for side in (0, 1)
    )
    return Reading(Measurement(1.0, (), other), reference, list(pairs), trusted, trained=trained)
