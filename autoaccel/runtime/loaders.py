"""A DataLoader like another: the same class and attributes, but other arguments, samples or batches."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader

from autoaccel.errors import BadRequestError


def with_batches(loader: DataLoader[Any], batches: Any) -> DataLoader[Any]:
    """Return a loader like this one that draws these batches of samples.

    Raises:
        BadRequestError: If the loader's class gets its batches from somewhere else.
    """
    _require_rebuildable(loader)
    return _twin(loader, {"batch_sampler": batches})


def with_arguments(loader: DataLoader[Any], arguments: Mapping[str, Any], dataset: Any) -> DataLoader[Any]:
    """Return the loader itself if it has these arguments and this dataset already, else one like it that has them.

    Raises:
        BadRequestError: If it needs to be another and cannot be.
    """
    if dataset is loader.dataset and all(_has(loader, name, value) for name, value in arguments.items()):
        return loader
    _require_rebuildable(loader)
    return _twin(loader, {**arguments, "dataset": dataset})


def given_indices(loader: DataLoader[Any], indices: Any, arguments: Mapping[str, Any]) -> DataLoader[Any]:
    """Return a loader like this one that loads what somebody else says: batches of indices, or single ones.

    Args:
        loader: Loads batches of a dataset with indices.
        indices: Take the place of its sampler.
        arguments: Others of the loader's.
    """
    return _twin(loader, {**arguments, "sampler" if loader.batch_sampler is None else "batch_sampler": indices})


def why_not_rebuildable(loader: DataLoader[Any]) -> str:
    """Return why no loader like this one can be made; empty if one can.

    A subclass may hold on to what its constructor made, such as an iterator that it never makes anew. So one like it
    is asked for a batch of a sampler that has none: it must turn to that sampler. No sample is loaded.
    """
    if type(loader) is DataLoader:
        return ""
    asked = _Asked()
    changes = {name: asked for name in ("sampler", "batch_sampler") if getattr(loader, name) is not None}
    try:
        next(iter(_twin(loader, {"num_workers": 0, "generator": torch.Generator(), **changes})), None)
    except _AskedError:
        return ""
    except Exception:  # whatever the user's class raises where it is not as its constructor left it
        pass
    return f"{type(loader).__name__} does not draw batches the way its attributes say, so it cannot be rebuilt"


def _require_rebuildable(loader: DataLoader[Any]) -> None:
    if reason := why_not_rebuildable(loader):
        raise BadRequestError(
            f"Training: {reason}. Give a dataset or a torch DataLoader as train_data; or leave all loader.* settings "
            "as they are, and parallel.world_size at 1."
        )


class _AskedError(BaseException):
    """The sampler was asked. Not an Exception, which a loader that skips bad samples would catch."""


class _Asked:
    """A sampler that only tells that it was asked."""

    def __iter__(self) -> Iterator[Any]:
        raise _AskedError


def _twin(loader: DataLoader[Any], changes: Mapping[str, Any]) -> DataLoader[Any]:
    """Return a copy of the loader, not yet iterated over, with other attributes.

    Not by its constructor: that of a subclass takes what it likes, and a list of arguments would lack those that torch
    adds. DataLoader's own makes nothing of its arguments but attributes of the same names.
    """
    twin: DataLoader[Any] = object.__new__(type(loader))
    vars(twin).update(vars(loader))
    changes = {"_iterator": None, **changes}
    if not changes.get("num_workers", loader.num_workers):
        # The one that loads in this process waits for nobody.
        of_workers: Mapping[str, Any] = {"persistent_workers": False, "prefetch_factor": None, "timeout": 0}
        changes = {**changes, **of_workers, "multiprocessing_context": None}
    elif changes.get("prefetch_factor", loader.prefetch_factor) is None:
        changes["prefetch_factor"] = 2  # torch's own default
    if "num_workers" in changes:  # before the context, whose setter asks for it
        object.__setattr__(twin, "num_workers", changes["num_workers"])
    for name, value in changes.items():
        # Not by the loader's own __setattr__, which defends what must not change once somebody draws from it.
        object.__setattr__(twin, name, value)
    return twin


def _has(loader: DataLoader[Any], name: str, value: Any) -> bool:
    """Whether a loader has been told this; how its workers start, it may have been left to Python."""
    if name == "multiprocessing_context":
        return bool(context_name(loader) == value)
    return bool(getattr(loader, name) == value)


def context_name(loader: DataLoader[Any]) -> str:
    """Return how the loader's workers are started."""
    context = loader.multiprocessing_context
    name = context if isinstance(context, str) else context.get_start_method() if context is not None else None
    return name or torch.multiprocessing.get_start_method()


_KEPT, _ITERATED = "_autoaccel_kept", "_autoaccel_iterated"


def draw_as(loader: DataLoader[Any], kept: bool) -> None:
    """Let a loader take as many random numbers as one whose workers stay for all epochs, or whose do not.

    Torch's takes a number for the seeds of its workers each time that it is iterated over, also where it has none; one
    whose workers stay takes it the first time alone (torch 2.13.0). From the second epoch on, all that is drawn from
    the same generator differs: the order of samples, dropout. See `draw_seeds_as_told`.

    Args:
        loader: It has not been iterated over.
        kept: Whether the user's own workers stay.
    """
    vars(loader)[_KEPT] = kept


def draw_seeds_as_told() -> None:
    """Let all loaders of this process that `draw_as` was told of draw so, for as long as it lives."""
    kind: Any = torch.utils.data.dataloader._BaseDataLoaderIter
    own_init, own_reset = kind.__init__, kind._reset

    @functools.wraps(own_init)
    def begins(iterator: Any, loader: DataLoader[Any]) -> None:
        told = vars(loader)
        generator = loader.generator
        if told.get(_KEPT) and told.get(_ITERATED):
            told["generator"] = torch.Generator()  # from which nothing else is drawn; nor is a number from the own one
        told[_ITERATED] = True
        try:
            own_init(iterator, loader)
        finally:
            told["generator"] = generator

    @functools.wraps(own_reset)
    def begins_anew(iterator: Any, loader: DataLoader[Any], first_iter: bool = False) -> None:
        own_reset(iterator, loader, first_iter)
        if not first_iter and vars(loader).get(_KEPT) is False:
            torch.empty((), dtype=torch.int64).random_(generator=loader.generator)

    kind.__init__, kind._reset = begins, begins_anew
