"""Loaders for a Training, with the arguments that the settings ask for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler

from autoaccel.errors import BadRequestError
from autoaccel.runtime import ranks
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.loaders import why_not_rebuildable, with_arguments, with_batches
from autoaccel.runtime.sharding import ShardedBatches
from autoaccel.runtime.training import Training, is_dataset


def train_loader(training: Training, applied: Applied, seed: int) -> Iterable[Any]:
    """Return the loader of training batches. For one seed the order is the same whatever the settings."""
    data = training.train_data
    # Generators of their own for the order of the data and for the seeds of workers: a loader whose workers stay
    # draws fewer seeds, and settings that draw other random numbers must not change the order either.
    order, seeds = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
    if is_dataset(data):
        dataset: Any = applied.dataset(data)
        shuffle = training.shuffle and not isinstance(dataset, IterableDataset)
        return _share_of_rank(
            DataLoader(
                dataset,
                batch_size=training.batch_size and applied.batch_size(training.batch_size),
                sampler=RandomSampler(dataset, generator=order) if shuffle else None,
                drop_last=training.drop_last,
                collate_fn=training.collate_fn,
                generator=seeds,
                **applied.loader_arguments(),
            )
        )
    loader = data()  # type: ignore[operator]  # no dataset, so a function
    if not isinstance(loader, DataLoader):
        return loader
    if isinstance(loader.sampler, RandomSampler) and loader.sampler.generator is None:
        loader.sampler.generator = order
    if loader.generator is None:
        loader.generator = seeds
    arguments = applied.loader_arguments({"worker_init_fn": loader.worker_init_fn})
    return _share_of_rank(with_arguments(loader, arguments, applied.dataset(loader.dataset)))


def divides_batches(loader: Iterable[Any]) -> bool:
    """Whether every batch is a list of samples of a dataset, which ranks can share out."""
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        return False
    return loader.batch_sampler is not None and not why_not_rebuildable(loader)


def _share_of_rank(loader: DataLoader[Any]) -> DataLoader[Any]:
    """Return a loader of this rank's part of each batch; alone, the loader itself.

    Raises:
        BadRequestError: If batches cannot be divided.
    """
    if ranks.world_size() == 1:
        return loader
    batches = loader.batch_sampler
    if batches is None or isinstance(loader.dataset, IterableDataset):
        raise BadRequestError(
            "Training: under parallel.world_size above 1, train_data must be a dataset or give loaders with batches of "
            "a dataset's samples; an iterable dataset cannot be divided."
        )
    if loader.generator is not None:
        # Loader workers of ranks draw different numbers for different samples.
        loader.generator.manual_seed(loader.generator.initial_seed() + ranks.SEEDS_APART * ranks.rank())
    shared = ShardedBatches(batches, ranks.rank(), ranks.world_size())
    return with_batches(loader, shared)


def without_done(loader: Iterable[Any], each_epoch: int, done: int) -> Iterable[Any]:
    """Return the loader without so many batches, none of them loaded, where an epoch has `each_epoch`.

    A stream, whose batches have no samples to name, begins anew.
    """
    if not isinstance(loader, DataLoader) or not divides_batches(loader):
        return loader
    batches = loader.batch_sampler
    left = batches if isinstance(batches, ShardedBatches) else ShardedBatches(batches or (), rank=0, ranks=1)
    epochs_done, left.done = divmod(done, each_epoch)
    taken = None if len(left) == each_epoch else each_epoch  # see `epochs_of`
    for _ in range(epochs_done):
        for _ in itertools.islice(left.batches, taken):  # for the random numbers that it draws
            pass
    return loader if left is batches else with_batches(loader, left)


def eval_loader(training: Training) -> Iterable[Any]:
    """Return the loader of evaluation batches, in order; the settings do not touch it."""
    data = training.eval_data
    if is_dataset(data):
        dataset: Any = data
        return DataLoader(dataset, batch_size=training.batch_size, collate_fn=training.collate_fn)
    return data()  # type: ignore[operator]  # no dataset, so a function


def count_steps(training: Training, loader: Iterable[Any]) -> int:
    """Return the optimizer steps of one epoch.

    Raises:
        BadRequestError: If the data has no length and `steps_per_epoch` was not given, or it is empty.
    """
    if training.steps_per_epoch is not None:
        return training.steps_per_epoch
    try:
        steps = len(loader)  # type: ignore[arg-type]  # it may have a length
    except TypeError:
        raise BadRequestError(
            "Training: steps_per_epoch must be given, because train_data has no length. "
            "Give Training(steps_per_epoch=...)."
        ) from None
    if steps == 0:
        raise BadRequestError("Training: train_data must hold at least one batch, got none.")
    return steps


def epochs_of(loader: Iterable[Any], steps_per_epoch: int, done: int = 0) -> Iterator[tuple[bool, Any]]:
    """Yield batches without end, each with whether it begins an epoch; an epoch has at most `steps_per_epoch`.

    Args:
        loader: Of one epoch after the other.
        steps_per_epoch: See above.
        done: How many of the first epoch the loader leaves out.

    Raises:
        BadRequestError: If the loader gives no batch.
    """
    try:
        ends_itself = len(loader) == steps_per_epoch  # type: ignore[arg-type]  # it may have a length
    except TypeError:
        ends_itself = False
    for count in itertools.chain([done], itertools.repeat(0)):
        for batch in loader:
            yield count == 0, batch
            count += 1
            # Left before its end, a sampler would not draw the last of its random numbers, which loader workers, who
            # are ahead, have drawn: the next epoch's order would depend on them.
            if count == steps_per_epoch and not ends_itself:
                break
        if count == 0:
            raise BadRequestError("Training: train_data must hold at least one batch, got none.")


def last_batch(loader: Iterable[Any]) -> Any | None:
    """Return an incomplete batch such as the one that ends each epoch, or None if all batches are alike."""
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        return None
    shared = loader.batch_sampler if isinstance(loader.batch_sampler, ShardedBatches) else None
    batches = shared.batches if shared else loader.batch_sampler
    if not isinstance(batches, BatchSampler) or batches.drop_last:
        return None
    rest = list(range(len(batches.sampler) % batches.batch_size))  # type: ignore[arg-type]  # it has a length
    if shared and rest:
        rest, _ = shared.part_of(rest)
    return loader.collate_fn([loader.dataset[index] for index in rest]) if rest else None
