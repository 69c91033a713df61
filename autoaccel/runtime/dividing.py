"""The batch of each step, divided among ranks and among the parts whose gradients add up.

All together see what one process with one backward pass per step would, in the same order. Not torch's
DistributedSampler: that repeats samples until all ranks have as many, so that their share in the gradient of an
epoch's last batch is no longer that of one process. Here that batch is divided as it is, and weights make up for
unequal pieces.
"""

from __future__ import annotations

import itertools
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch

from autoaccel.errors import BadRequestError
from autoaccel.runtime.randomness import Apart
from autoaccel.runtime.ranks import all_equal

_STEPS_APART = 64  # from one comparison of all ranks' batches to the next; before that after 1, 2, 4, ... steps


class Piece(NamedTuple):
    """What a backward pass is to know of its batch."""

    weight: float  # of its mean loss
    ends_step: bool
    step_samples: int  # of the whole step, all its pieces on all ranks
    digest: int = 0  # of all batches so far, this one included


class Division(NamedTuple):
    """Into how many pieces batches are divided, and whose to give."""

    parts: int = 1  # backward passes per step
    number: int = 0  # of the share whose pieces to give
    shares: int = 1  # of the processes that train together
    least: int = 1  # samples in a piece that has any, as far as there are: batch normalisation refuses a single one


class Divided:
    """A batch sampler: of each batch of another, the pieces of one rank, one after the other.

    The gradients of ranks are averaged and those of parts as well, each with equal weight. `pieces` holds, in order,
    for each piece that was drawn and not yet loaded, what its mean loss must be multiplied by for that average to be
    the gradient of the mean loss over the whole batch.

    The batches are drawn from random numbers of their own, whatever sampler draws them. So they are the same on all
    ranks, and do not depend on how many are drawn ahead of the step. They are those that a plain loop over the user's
    loader gets where nothing else draws: `generator` is that loader's, from which torch takes a number at the beginning
    of each epoch; None stands for the generator that everybody shares.
    """

    def __init__(
        self,
        batches: Iterable[list[Any]],
        seed: int,
        division: Division,
        *,
        generator: torch.Generator | None = None,
        steps_per_epoch: int | None = None,
    ) -> None:
        """Divide batches.

        Args:
            batches: To divide.
            seed: Of the random numbers that they are drawn from.
            division: Into what.
            generator: Of the loader; see above.
            steps_per_epoch: Batches that are drawn in an epoch at most; None for all.
        """
        self.batches = batches
        self.parts = division.parts
        self.pieces: deque[Piece] = deque()
        self._random = Apart(seed)
        self._generator = generator
        self._division = division
        self._steps_per_epoch = steps_per_epoch
        self._digest = 0
        self._begun: Iterator[list[Any]] | None = None

    def __iter__(self) -> Iterator[list[Any]]:
        self.pieces.clear()  # what was drawn ahead for an epoch that was left early
        begun, self._begun = self._begun, None
        for batch in begun if begun is not None else self._epoch():
            self._digest = zlib.crc32(repr(batch).encode(), self._digest) if self._division.shares > 1 else 0
            for part in range(self.parts):
                samples, weight = self.piece_of(batch, part)
                self.pieces.append(Piece(weight, part == self.parts - 1, len(batch), self._digest))
                yield samples

    def __len__(self) -> int:
        return self.steps_per_epoch * self.parts

    @property
    def steps_per_epoch(self) -> int:
        """How many batches an epoch has; a TypeError if that is not known."""
        if self._steps_per_epoch is not None:
            return self._steps_per_epoch
        return len(self.batches)  # type: ignore[arg-type]  # asked only of what has a length

    def piece_of(self, batch: list[Any], part: int) -> tuple[list[Any], float]:
        """Return this rank's samples of a part of a batch, and their weight.

        If none are left for it, it gets some with weight 0: every rank has to take part.
        """
        parts, own, shares, least = self._division
        pieces = parts * shares
        filled = max(1, min(pieces, len(batch) // least))
        number = part * shares + own
        if number >= filled:
            return batch[::filled], 0.0
        samples = batch[number::filled]
        return samples, len(samples) * pieces / len(batch)

    def resume_after(self, epochs: int, samples: int) -> int:
        """Skip what was trained on before, without loading it; return how many whole batches of the epoch that is.

        Args:
            epochs: How many are over.
            samples: How many of the next epoch were trained on. If they end within a batch, its rest is a batch.
        """
        for _ in range(epochs):
            for _ in self._epoch():  # for the random numbers that it draws
                pass
        epoch, steps = self._epoch(), 0
        self._begun = epoch
        for batch in epoch if samples else ():
            if samples < len(batch):
                self._begun = itertools.chain([batch[samples:]], epoch)
                break
            samples -= len(batch)
            steps += 1
            if not samples:
                break
        return steps

    def _epoch(self) -> Iterator[list[Any]]:
        with self._random:
            batches = iter(self.batches)
            torch.empty((), dtype=torch.int64).random_(generator=self._generator)
        for _ in range(self._steps_per_epoch) if self._steps_per_epoch is not None else itertools.repeat(None):
            with self._random:
                batch = next(batches, None)
            if batch is None:
                return
            yield list(batch)


class Agreement:
    """Checks that all ranks draw the same batches."""

    def __init__(self) -> None:
        self._steps = 0

    def check(self, digest: int) -> None:
        """Stop if ranks have drawn different batches; called before every step, on every rank.

        Ranks are compared only now and then, because each waits for all; but all batches so far are compared.

        Args:
            digest: Of all batches so far.

        Raises:
            BadRequestError: If they have; on every rank.
        """
        self._steps += 1
        is_due = self._steps & (self._steps - 1) == 0 or self._steps % _STEPS_APART == 0
        if is_due and not all_equal(digest):
            raise BadRequestError(
                "Training: every rank must draw the same batches, but they differ: the sampler must use only the "
                "random generators of torch, numpy or random, and build() must give every rank the same data. Sort "
                "what comes from a set or a folder; or leave parallel.world_size at 1."
            )
