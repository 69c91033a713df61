"""Records that tests of several parts share."""

from __future__ import annotations

from autoaccel.records.workload import TrainingFacts

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
