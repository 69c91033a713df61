"""Progress: how far a training has come."""

from __future__ import annotations

from typing import Any, NamedTuple

from autoaccel.records.settings import Value


class Progress(NamedTuple):
    """How far a training has come: all that is needed to resume it."""

    steps_done: int
    samples_done: int
    place: tuple[int, int, int]  # epochs that are over; steps and samples of the next one
    whole_samples: int | None  # of a whole step; None where batches are the user's own
    last_loss: float
    has_shrunk: bool
    model: dict[str, Any]
    optimizer: dict[str, Any]
    scheduler: dict[str, Any] | None
    applied: dict[str, Any]  # what the settings have learned, such as float16's scale
    random_states: dict[str, Any]  # of the leader
    settings: dict[str, Value]  # that it ran with
