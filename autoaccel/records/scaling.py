"""Scaling: how long a data-parallel training takes with more ranks, measured or predicted."""

from __future__ import annotations

from typing import Literal

import msgspec

from autoaccel.records.base import Record

Batch = Literal["keep", "split"]
"""With more ranks each keeps its batch size (weak scaling), or they split the global batch (strong scaling)."""

Bottleneck = Literal["compute", "all-reduce", "fixed cost"]


class LinkFigures(Record, frozen=True):
    """What a link does: one direction, per rank within a machine, per machine between machines."""

    name: str
    bytes_per_second: float
    latency_seconds: float  # of one message
    source: str


class Cluster(Record, frozen=True):
    """Equal machines."""

    ranks_per_machine: int
    within: LinkFigures
    between: LinkFigures

    def machines(self, world_size: int) -> int:
        """Return how many machines so many ranks need."""
        return -(-world_size // self.ranks_per_machine)

    def on_fullest(self, world_size: int) -> int:
        """Return how many of them the fullest machine has."""
        return min(world_size, self.ranks_per_machine)


class Exchange(Record, frozen=True):
    """What the ranks of a run exchange, and over which links as far as they are known."""

    gradient_bytes: int  # of one step
    steps: int  # optimizer steps of the whole run with one rank
    within: LinkFigures | None = None
    between: LinkFigures | None = None


class RunPoint(Record, frozen=True):
    """The time of a whole run with so many ranks; the parts add up to the fitted time."""

    ranks: int
    machines: int
    seconds: float  # as measured, else as predicted
    predicted: bool
    fitted_seconds: float
    low: float  # 95 % interval of a run's time; of a measured one the time itself
    high: float
    speedup: float  # over one rank
    efficiency: float  # speed-up / ranks
    compute_seconds: float
    all_reduce_seconds: float  # exposed, with all else that grows like it: waiting for the slowest rank
    fixed_seconds: float
    bottleneck: Bottleneck = msgspec.field(name="limit")  # the largest part


class RunScaling(Record, frozen=True):
    """What measured run times say about other world sizes."""

    batch: Batch
    deviation: float  # relative, of a measured time from the fitted one
    links: tuple[LinkFigures, ...]  # published figures that the prediction rests on
    effective_bytes_per_second: float | None  # of a link within a machine that would cost what was fitted
    points: tuple[RunPoint, ...]  # ascending
