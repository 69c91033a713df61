"""Steps of a data-parallel training on a simulated cluster: compute, what of the all-reduce is not hidden, the slowest
rank, the loader."""

from __future__ import annotations

from typing import Literal

import numpy as np

from autoaccel.advise.overlap import buckets_of, reduced_seconds
from autoaccel.records.base import Record
from autoaccel.records.scaling import Batch, Cluster

_STEPS = 500  # simulated per world size: the mean is good to half a percent where single steps vary by a tenth

StepBottleneck = Literal["compute", "all-reduce", "slowest rank", "loader"]


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
    bottleneck: StepBottleneck  # the largest part


def simulate(plan: ScalingPlan, seed: int = 0) -> tuple[StepForecast, ...]:
    """Return what a step takes with each of the plan's world sizes, by simulating the buckets of 500 steps.

    In each step every rank takes its compute time times a lognormal factor of median 1, and all wait for the slowest:
    with many ranks even rare delays hit every step (Petrini, Kerbyson and Pakin, SC 2003; Hoefler, Schneider and
    Lumsdaine, SC 2010; for training: Chen et al., arXiv 1604.00981). That the factor is lognormal is an assumption.

    Args:
        plan: Every world size at least 1; a global batch that is split has at least one sample for each rank.
        seed: Of the factors.
    """
    alone = _forecast(plan, 1, seed, 1.0)
    return tuple(_forecast(plan, ranks, seed, alone.samples_per_second) for ranks in plan.world_sizes)


def _forecast(plan: ScalingPlan, ranks: int, seed: int, alone_per_second: float) -> StepForecast:
    if plan.batch == "split" and not 1 <= ranks <= plan.batch_size:
        raise ValueError(f"1 <= ranks <= {plan.batch_size}, the global batch, must hold, but got {ranks}")
    per_rank = plan.batch_size if plan.batch == "keep" else -(-plan.batch_size // ranks)
    samples = plan.batch_size * ranks if plan.batch == "keep" else plan.batch_size
    usual = plan.cost.fixed_seconds + plan.cost.sample_seconds * per_rank
    factors = np.exp(plan.step_deviation * np.random.default_rng(seed).normal(size=(_STEPS, ranks)))
    slowest = usual * factors.max(axis=1)
    buckets = buckets_of(plan.gradient_bytes, plan.bucket_bytes)
    reduced = reduced_seconds(slowest, ranks, plan.cluster, buckets)
    loaded = 0.0
    if plan.loader_samples_per_second is not None:
        loaded = per_rank * plan.cluster.on_fullest(ranks) / plan.loader_samples_per_second
    step = float(np.maximum(reduced, loaded).mean())
    own = usual * float(factors.mean())
    parts: dict[StepBottleneck, float] = {
        "compute": own,
        "slowest rank": float(slowest.mean()) - own,
        "all-reduce": float((reduced - slowest).mean()),
        "loader": step - float(reduced.mean()),
    }
    return StepForecast(
        ranks=ranks,
        step_seconds=step,
        compute_seconds=parts["compute"],
        slowest_rank_seconds=parts["slowest rank"],
        all_reduce_seconds=parts["all-reduce"],
        loader_seconds=parts["loader"],
        samples_per_second=samples / step,
        efficiency=samples / step / ranks / alone_per_second,
        run_seconds=plan.fixed_seconds + -(-plan.samples // samples) * step,
        bottleneck=max(parts, key=lambda name: parts[name]),
    )
