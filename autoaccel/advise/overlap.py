"""When the gradients of a data-parallel step are reduced: what of the all-reduce the backward pass does not hide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from autoaccel.advise.all_reduce import all_reduce_seconds
from autoaccel.records.scaling import Cluster

BACKWARD_SHARE = 2 / 3
"""Of a step's compute: the backward pass takes twice the operations of the forward pass (Kaplan et al., arXiv
2001.08361)."""

BUCKET_BYTES = 25 << 20
FIRST_BUCKET_BYTES = 1 << 20
"""DistributedDataParallel's defaults; the first bucket is small so that the first all-reduce starts early."""


def buckets_of(gradient_bytes: int, bucket_bytes: int = BUCKET_BYTES) -> Iterator[tuple[int, float]]:
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
    world_size: int,
    cluster: Cluster,
    buckets: Iterable[tuple[int, float]],
) -> NDArray[np.float64]:
    """Return when all gradients are reduced, counted from the step's start.

    A bucket's all-reduce starts when its slowest rank is ready and the bucket before is done: one communicator does
    one after the other.

    Args:
        compute_seconds: Of the slowest rank, for each step.
        world_size: At least 1; a single one has nothing to reduce.
        cluster: Where they run.
        buckets: Of the gradients of one step; see `buckets_of`.
    """
    end = compute_seconds * 0.0
    for size, share in buckets:
        ready = compute_seconds * (1 - BACKWARD_SHARE * (1 - share))
        end = np.maximum(end, ready) + all_reduce_seconds(size, world_size, cluster)
    return np.maximum(end, compute_seconds)
