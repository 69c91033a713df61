"""How the step of a data-parallel training grows with ranks: compute, what of the all-reduce is not hidden, the slowest
rank, the loader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from autoaccel.advise.all_reduce import all_reduce_seconds
from autoaccel.records.scaling import Cluster, Limit, ScalingPlan, StepCost, StepForecast

BACKWARD_SHARE = 2 / 3
"""Of a step's compute: the backward pass takes twice the operations of the forward pass (Kaplan et al., arXiv
2001.08361)."""

BUCKET_BYTES = 25 << 20
FIRST_BUCKET_BYTES = 1 << 20
"""DistributedDataParallel's defaults; the first bucket is small so that the first all-reduce starts early."""

_STEPS = 500  # simulated per world size: the mean is good to half a percent where single steps vary by a tenth


def fit_step_cost(step_seconds: Mapping[int, float]) -> StepCost:
    """Return the part per step and the part per sample of measured step times, by least squares of relative errors.

    Args:
        step_seconds: By batch size of one rank. With one batch size, all of the time is per sample.

    Raises:
        ValueError: If no step time is given, or one is not above zero.
    """
    if not step_seconds or min(step_seconds.values()) <= 0:
        raise ValueError(f"step times above zero must be given, but got {dict(step_seconds)}")
    rows = np.array([[1 / seconds, size / seconds] for size, seconds in step_seconds.items()])
    ones = np.ones(len(rows))
    sample = float(rows[:, 1].sum() / (rows[:, 1] ** 2).sum())
    if len(rows) == 1:
        return StepCost(0.0, sample)
    fixed, slope = np.linalg.lstsq(rows, ones, rcond=None)[0]
    if slope < 0:  # larger batches in less time: noise
        return StepCost(float(rows[:, 0].sum() / (rows[:, 0] ** 2).sum()), 0.0)
    return StepCost(float(fixed), float(slope)) if fixed >= 0 else StepCost(0.0, sample)


def buckets(gradient_bytes: int, bucket_bytes: int = BUCKET_BYTES) -> Iterator[tuple[int, float]]:
    """Yield bytes of each bucket of gradients and the share of the backward pass after which it is ready.

    Gradients appear evenly over the backward pass. The last bucket is ready at its end, so that nothing hides it (Li et
    al., PyTorch Distributed, VLDB 2020, arXiv 2006.15704).
    """
    done = 0
    while done < gradient_bytes:
        size = min(bucket_bytes if done else min(bucket_bytes, FIRST_BUCKET_BYTES), gradient_bytes - done)
        done += size
        yield size, done / gradient_bytes


def reduced_seconds(
    compute_seconds: NDArray[np.float64],
    ranks: int,
    gradient_bytes: int,
    cluster: Cluster,
    bucket_bytes: int = BUCKET_BYTES,
) -> NDArray[np.float64]:
    """Return when all gradients are reduced, counted from the step's start.

    A bucket's all-reduce starts when its slowest rank is ready and the bucket before is done: one communicator does
    one after the other.

    Args:
        compute_seconds: Of the slowest rank, for each step.
        ranks: At least 1; a single one has nothing to reduce.
        gradient_bytes: Of one step.
        cluster: Where they run.
        bucket_bytes: The most of one bucket.
    """
    end = compute_seconds * 0.0
    for size, share in buckets(gradient_bytes, bucket_bytes):
        ready = compute_seconds * (1 - BACKWARD_SHARE * (1 - share))
        end = np.maximum(end, ready) + all_reduce_seconds(size, ranks, cluster)
    return np.maximum(end, compute_seconds)


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
    reduced = reduced_seconds(slowest, ranks, plan.gradient_bytes, plan.cluster, plan.bucket_bytes)
    loaded = 0.0
    if plan.loader_samples_per_second is not None:
        loaded = per_rank * min(ranks, plan.cluster.ranks_per_machine) / plan.loader_samples_per_second
    step = float(np.maximum(reduced, loaded).mean())
    own = usual * float(factors.mean())
    parts: dict[Limit, float] = {
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
        limit=max(parts, key=lambda name: parts[name]),
    )
