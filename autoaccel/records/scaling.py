"""Scaling: how long a data-parallel training takes with more ranks, measured or predicted."""

from __future__ import annotations

from typing import Literal

from autoaccel.records.base import Record

Batch = Literal["keep", "split"]
"""With more ranks each keeps its batch size (weak scaling), or they split the global batch (strong scaling)."""

Limit = Literal["compute", "all-reduce", "slowest rank", "loader", "fixed cost"]


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


class Exchange(Record, frozen=True):
    """What the ranks of a run exchange, and over which links as far as they are known."""

    gradient_bytes: int  # of one step
    steps: int  # optimizer steps of the whole run with one rank
    within: LinkFigures | None = None
    between: LinkFigures | None = None


class StepCost(Record, frozen=True):
    """Forward, backward and update of one rank: a part per step and a part per sample."""

    fixed_seconds: float
    sample_seconds: float


class ScalingPlan(Record, frozen=True):
    """A data-parallel training for which step times are to be simulated."""

    cost: StepCost
    batch_size: int  # per rank if it is kept, else of all ranks
    gradient_bytes: int
    cluster: Cluster
    world_sizes: tuple[int, ...]
    samples: int  # of the whole run, all epochs together
    batch: Batch = "keep"
    bucket_bytes: int = 25 << 20  # DistributedDataParallel's bucket_cap_mb
    step_deviation: float = 0.0  # standard deviation of the logarithm of a rank's step time, from step to step
    loader_samples_per_second: float | None = None  # of all loader workers of one machine; None: never waited for
    fixed_seconds: float = 0.0  # per run: start-up, evaluation on one rank


class StepForecast(Record, frozen=True):
    """A step with so many ranks; the parts add up to it. All means."""

    ranks: int
    step_seconds: float
    compute_seconds: float  # of a usual rank
    slowest_rank_seconds: float  # what the slowest of all ranks takes longer
    all_reduce_seconds: float  # what is not hidden behind the backward pass
    loader_seconds: float  # what the loader makes everybody wait
    samples_per_second: float
    efficiency: float  # throughput per rank, relative to that of one rank
    run_seconds: float
    limit: Limit  # the largest part


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
    limit: Limit  # the largest part


class RunScaling(Record, frozen=True):
    """What measured run times say about other world sizes."""

    batch: Batch
    deviation: float  # relative, of a measured time from the fitted one
    links: tuple[LinkFigures, ...]  # published figures that the prediction rests on
    effective_bytes_per_second: float | None  # of a link within a machine that would cost what was fitted
    points: tuple[RunPoint, ...]  # ascending
