"""Batches shared out among ranks, so that all together see what one process would, in the same order.

Not torch's DistributedSampler: that repeats samples until all ranks have as many, so that their share in the gradient
of an epoch's last batch is no longer that of one process. Here that batch is divided as it is, and weights make up for
unequal parts.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any


class ShardedBatches:
    """A batch sampler: of each batch of another, the part of one rank.

    The gradients of ranks are averaged, each with equal weight. `weights` holds, in order, for each batch that was
    drawn and not yet trained on, what the mean loss of this rank's part must be multiplied by for that average to be
    the gradient of the mean loss over the whole batch.
    """

    def __init__(self, batches: Iterable[list[Any]], rank: int, ranks: int) -> None:
        self.batches = batches
        self.weights: deque[float] = deque()
        self.done = 0
        """How many batches of the next epoch are left out, because they were trained on before."""
        self._rank = rank
        self._ranks = ranks

    def __iter__(self) -> Iterator[list[Any]]:
        self.weights.clear()  # what was drawn ahead for an epoch that was left early
        done, self.done = self.done, 0
        for batch in itertools.islice(self.batches, done, None):
            part, weight = self.part_of(batch)
            self.weights.append(weight)
            yield part

    def __len__(self) -> int:
        return len(self.batches)  # type: ignore[arg-type]  # asked only of what has a length

    def part_of(self, batch: list[Any]) -> tuple[list[Any], float]:
        """Return this rank's samples of a batch and their weight.

        A rank for which there are no samples gets the first, with weight 0: it has to take part.
        """
        part = batch[self._rank :: self._ranks]
        weight = len(part) * self._ranks / len(batch)
        return part or batch[:1], weight
