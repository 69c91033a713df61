"""Loaders for a Training, with the arguments that the settings ask for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler

from autoaccel.errors import BadRequestError
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.batches import count_samples
from autoaccel.runtime.dividing import Divided, Division, Piece
from autoaccel.runtime.loaders import why_not_rebuildable, with_arguments, with_batches
from autoaccel.runtime.modules import normalises_batches
from autoaccel.runtime.ranks import is_alone, own_seed, own_share
from autoaccel.runtime.training import Training, is_dataset


def train_loader(training: Training, applied: Applied, seed: int) -> Iterable[Any]:
    """Return the loader of training batches. For one seed the order is the same whatever the settings.

    Raises:
        BadRequestError: If the settings ask for other batches than the data can give.
    """
    data = training.train_data
    # Of its own for the seeds of workers: a loader whose workers stay draws fewer of them.
    seeds = torch.Generator().manual_seed(seed)
    if is_dataset(data):
        dataset: Any = applied.dataset(data)
        shuffle = training.shuffle and not isinstance(dataset, IterableDataset)
        loader = DataLoader(
            dataset,
            batch_size=training.batch_size and applied.step_samples(training.batch_size),
            sampler=RandomSampler(dataset, generator=torch.Generator().manual_seed(seed)) if shuffle else None,
            drop_last=training.drop_last,
            collate_fn=training.collate_fn,
            generator=seeds,
            **applied.loader_arguments(),
        )
        return _divided(loader, training, applied, seed)
    if applied.batch_factor != 1:
        raise BadRequestError(
            "Training: with optimizer.batch_factor or parallel.batch=keep, train_data must be a dataset, because "
            "a loader's batches are fixed. Remove these settings, or give the dataset and batch_size."
        )
    own = data()  # type: ignore[operator]  # no dataset, so a function
    if not isinstance(own, DataLoader):
        _require_whole(applied)
        return own
    arguments = applied.loader_arguments({"worker_init_fn": own.worker_init_fn})
    loader = with_arguments(own, arguments, applied.dataset(own.dataset))
    return _divided(loader, training, applied, seed)


def divides_batches(loader: Iterable[Any]) -> bool:
    """Whether every batch is a list of samples of a dataset, which ranks can share out."""
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        return False
    return loader.batch_sampler is not None and not why_not_rebuildable(loader)


def _divided(loader: DataLoader[Any], training: Training, applied: Applied, seed: int) -> DataLoader[Any]:
    """Return a loader of this rank's pieces of each batch, in as many parts as a step has; see `Divided`.

    Raises:
        BadRequestError: If batches must be divided and cannot be.
    """
    if not divides_batches(loader):
        _require_whole(applied)
        if loader.generator is None:
            loader.generator = torch.Generator().manual_seed(seed)
        return loader
    least = 2 if normalises_batches(training.model) else 1
    divided = Divided(
        loader.batch_sampler or (),
        seed,
        Division(applied.parts, *own_share(), least),
        generator=loader.generator,
        steps_per_epoch=training.steps_per_epoch,
    )
    made = with_batches(loader, divided)
    # Loader workers of ranks draw different numbers for different samples. Never from the generator of the batches:
    # how many numbers workers take from it depends on whether they stay.
    first = seed if loader.generator is None else loader.generator.initial_seed()
    made.generator = torch.Generator().manual_seed(own_seed(first))
    made.in_order = True  # the pieces of one step belong together, on all ranks
    return made


def _require_whole(applied: Applied) -> None:
    """Refuse to divide batches that cannot be divided.

    Raises:
        BadRequestError: If the settings divide batches.
    """
    if applied.parts > 1 or not is_alone():
        raise BadRequestError(
            "Training: with parallel.world_size or optimizer.accumulation above 1, train_data must be a dataset or "
            "give loaders with batches of a dataset's samples; nothing else can be divided. Leave both at 1."
        )


def batches_of(loader: Iterable[Any]) -> Divided | None:
    """Return what draws the batches of a loader that `train_loader` has made; None if that is the user's alone."""
    found = getattr(loader, "batch_sampler", None)
    return found if isinstance(found, Divided) else None


def eval_loader(training: Training) -> Iterable[Any]:
    """Return the loader of evaluation batches, in order; settings do not change it."""
    data = training.eval_data
    if is_dataset(data):
        dataset: Any = data
        return DataLoader(dataset, batch_size=training.batch_size, collate_fn=training.collate_fn)
    return data()  # type: ignore[operator]  # no dataset, so a function


class OnDevice:
    """A loader whose batches arrive on a device."""

    def __init__(self, loader: Iterable[Any], device: torch.device) -> None:
        self.loader = loader
        self.place = Applied({}, device).batch

    def __iter__(self) -> Iterator[Any]:
        return (self.place(batch) for batch in self.loader)

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]  # asked only of what has a length


def count_steps(training: Training, loader: Iterable[Any]) -> int:
    """Return the optimizer steps of one epoch.

    Raises:
        BadRequestError: If the data has no length and `steps_per_epoch` was not given, or it is empty.
    """
    if training.steps_per_epoch is not None:
        return training.steps_per_epoch
    divided = batches_of(loader)
    try:
        steps = len(loader) if divided is None else divided.steps_per_epoch  # type: ignore[arg-type]  # it may have one
    except TypeError:
        raise BadRequestError(
            "Training: steps_per_epoch must be given, because train_data has no length. "
            "Give Training(steps_per_epoch=...)."
        ) from None
    if steps == 0:
        raise BadRequestError("Training: train_data must hold at least one batch, got none.")
    return steps


class Drawn(NamedTuple):
    """A batch of the loader, and what a backward pass on it is to know."""

    begins_epoch: bool
    batch: Any
    piece: Piece


def epochs_of(loader: Iterable[Any], steps_per_epoch: int, done: int = 0, is_resumed: bool = False) -> Iterator[Drawn]:
    """Yield batches without end; an epoch has at most `steps_per_epoch`.

    Args:
        loader: Of one epoch after the other.
        steps_per_epoch: See above.
        done: How many steps of the first epoch the loader leaves out.
        is_resumed: Whether the first epoch was begun before.

    Raises:
        BadRequestError: If the loader gives no batch, or others than it draws.
    """
    divided = batches_of(loader)
    for count in itertools.chain([done], itertools.repeat(0)):
        whole = True  # whether the next batch begins a step
        for batch in loader:
            if divided is None:
                piece = Piece(1.0, True, count_samples(batch))
            elif divided.pieces:
                piece = divided.pieces.popleft()
            else:
                raise BadRequestError(_OTHER_BATCHES)
            yield Drawn(whole and count == 0 and not is_resumed, batch, piece)
            is_resumed = False
            whole = piece.ends_step
            count += whole
            if divided is None and count == steps_per_epoch:  # a Divided ends by itself
                break
        if divided is not None and divided.pieces:
            raise BadRequestError(_OTHER_BATCHES)
        if count == 0:
            raise BadRequestError("Training: train_data must hold at least one batch, got none.")


_OTHER_BATCHES = (
    "Training: the loader gives more or fewer batches than its batch sampler draws, so it is unknown which samples "
    "they hold. Let train_data be a function that returns an iterable other than a DataLoader."
)


def last_step(loader: Iterable[Any]) -> list[tuple[Any, Piece]]:
    """Return the batches of an incomplete step such as the one that ends each epoch; none if all steps are alike."""
    divided = batches_of(loader)
    batches = divided and divided.batches
    if divided is None or not isinstance(batches, BatchSampler) or batches.drop_last:
        return []
    assert isinstance(loader, DataLoader)  # nothing else has a Divided
    rest = list(range(len(batches.sampler) % batches.batch_size))  # type: ignore[arg-type]  # it has a length
    made = []
    for part in range(divided.parts if rest else 0):
        samples, weight = divided.piece_of(rest, part)
        batch = loader.collate_fn([loader.dataset[index] for index in samples])
        made.append((batch, Piece(weight, part == divided.parts - 1, len(rest))))
    return made
