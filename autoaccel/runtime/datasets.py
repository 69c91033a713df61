"""Whether samples are the same whoever loads them, and how much memory they would take."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy
import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate

from autoaccel.runtime.batches import parts_of
from autoaccel.runtime.held import handle_in
from autoaccel.runtime.loaders import context_name, given_indices
from autoaccel.runtime.randomness import Apart, State, generator_read_in, generators_of, state_of
from autoaccel.runtime.sparse import bytes_of_tensor

_LOOKED_AT = 8  # samples, spread over the dataset, each loaded twice
_MIN_LOOKED_AT = 2
_LOADED_IN_WORKERS = 4  # of them, once more by two workers each
_COLLATED = 4  # batches that are made here and by workers, by a function of the user's own,
_COLLATE_SECONDS = 0.5  # unless one takes longer
_DEEPEST = 6  # objects in objects, of a sample
_WORKER_SECONDS = 10  # for one of these
_LOOK_SECONDS = 2.0  # of which no more samples are begun: somebody waits for a run to begin


class LoadingFacts(NamedTuple):
    """What loading some samples of a loader, each twice, has shown."""

    bytes_if_cached: int | None
    """Bytes that all samples take in memory; None if some are not the same each time, or have no number."""
    why_loading_matters: str
    """Why who loads a sample, and when, decides on its numbers; empty if it does not."""
    only_redraws: bool = False
    """Whether that is all because of random numbers from the generators that a process shares.

    torch seeds these anew in every worker, so samples are drawn there as they are anywhere else, with other numbers."""
    why_bound: str = ""
    """Why samples must be loaded where the training loads them; empty if they may be elsewhere."""


class _Found(Exception):  # noqa: N818  # what is looked for is no error
    """Loading matters, and not only because of random numbers from the generators that a process shares."""


class _Loaded(NamedTuple):
    """What was loaded, and whether that took random numbers from the generators that a process shares."""

    loaded: Any
    drew: bool


def why_bound(loader: DataLoader[Any]) -> str:
    """Return what loading holds that processes must not share, before anything was loaded; empty if nothing."""
    handle = handle_in(one for one in (loader.dataset, loader.collate_fn, loader.worker_init_fn) if one is not None)
    return f"{handle} is an open file or connection, whose place processes would share" if handle else ""


def look_at_samples(loader: DataLoader[Any]) -> LoadingFacts:
    """Return what a few samples show: each is loaded twice, while the generators are watched.

    It loads 8 samples twice, or as many as it has begun in two seconds, at least 2, and makes a batch of them twice.
    The second time the shared generators are in another state; in the same one if they were drawn from, which must
    give the same again. They are left as they were; those of the dataset's own have gone on. What is the same twice is
    then loaded by two workers.
    """
    dataset = loader.dataset
    if isinstance(dataset, IterableDataset):
        return LoadingFacts(None, "its data is a stream, which workers either divide among themselves or repeat")
    try:
        samples, numbers, draws = _load_samples(dataset)
        batches_draw = _make_batches(loader, samples, numbers)
    except _Found as found:
        return LoadingFacts(None, str(found))
    except Exception:  # whatever the user's code raises where it is not asked as its sampler would
        return LoadingFacts(None, "its samples cannot be inspected one by one")
    if draws or batches_draw:
        # A function of the user's own may seed workers otherwise: all alike, for example.
        only_redraws = loader.worker_init_fn is None
        return LoadingFacts(None, _draws("loading a sample" if draws else "making a batch of samples"), only_redraws)
    if not samples:
        return LoadingFacts(None, "")
    if name := generator_read_in([loader.dataset, loader.collate_fn]):
        # It may draw for few samples, none of which was looked at.
        return LoadingFacts(None, _draws(f"loading a sample ({name})"))
    if why := _why_not_in_workers(loader, samples, numbers):
        return LoadingFacts(None, "", why_bound=why)
    mean_bytes = sum(map(bytes_of, samples)) / len(samples)
    return LoadingFacts(round(mean_bytes * len(dataset)), "")  # type: ignore[arg-type]  # it has a length


def loads_same(loader: DataLoader[Any], indices: Any, batch: Any) -> bool:
    """Return whether two workers load a batch, each once, as the training's own process has loaded it.

    Args:
        loader: Whose batch it is.
        indices: As its sampler gave them.
        batch: That was loaded.
    """
    arguments = {"num_workers": 2, "timeout": _WORKER_SECONDS, "generator": torch.Generator()}
    try:
        found = list(DataLoader.__iter__(given_indices(loader, [indices, indices], arguments)))
    except Exception:  # whatever the user's code raises in a worker
        return False
    return all(_is_same(batch, one) for one in found)


def _load_samples(dataset: Any) -> tuple[list[Any], list[int], bool]:
    """Return samples, each the same twice, their numbers, and whether they draw from shared generators."""
    step = max(1, len(dataset) // _LOOKED_AT)
    own = generators_of(dataset)
    samples: list[Any] = []
    numbers: list[int] = []
    draws = False
    until = time.perf_counter() + _LOOK_SECONDS
    for number in range(0, len(dataset), step)[:_LOOKED_AT]:
        if time.perf_counter() > until and len(samples) >= _MIN_LOOKED_AT:
            break
        load = partial(dataset.__getitem__, number)
        sample, drew = _load_twice(load, own, "loading a sample", "samples differ each time they are loaded")
        samples.append(sample)
        numbers.append(number)
        draws = draws or drew
    return samples, numbers, draws


def _why_not_in_workers(loader: DataLoader[Any], samples: list[Any], numbers: list[int]) -> str:
    """Return why two workers may not load: one loads or collates otherwise than this process does, or fails.

    Only of workers that are forked: others import the user's program once more.
    """
    if context_name(loader) != "fork":
        return ""
    asked = list(zip(numbers, samples, strict=True))[:_LOADED_IN_WORKERS]
    twice = [[number] for number, _ in asked for _ in range(2)]  # workers take turns, so that each loads it
    try:
        found = [batch[0] for batch in _in_workers(loader, twice, list)]
    except Exception as error:
        words = str(error).strip().splitlines() or [type(error).__name__]
        if "timed out" in words[0]:  # one that is slow says nothing
            return ""
        return f"its samples cannot be loaded by workers ({words[-1][:200]})"
    here = [sample for _, sample in asked for _ in range(2)]
    if not all(map(_is_same, here, found)):
        return "workers load other samples than the training's own process does"
    return _why_not_collated(loader) if loader.collate_fn is not default_collate else ""


def _why_not_collated(loader: DataLoader[Any]) -> str:
    """Return why workers may not make batches by the user's own function: these come out otherwise.

    It may ask which worker it is in, or compute sums, which several threads round otherwise than the one of a worker.
    """
    if loader.batch_sampler is None:
        return ""
    count, size = len(loader.dataset), loader.batch_size or 1  # type: ignore[arg-type]  # it has a length
    began = time.perf_counter()
    try:
        whole = [[(size * place + each) % count for each in range(size)] for place in range(_COLLATED)]
        here = [_batch_of(loader, numbers) for numbers in whole[:1]]
        if time.perf_counter() - began > _COLLATE_SECONDS:
            return ""
        here += [_batch_of(loader, numbers) for numbers in whole[1:]]
        found = list(_in_workers(loader, whole, loader.collate_fn))
    except Exception:  # whatever the user's code raises where it is given other samples than its sampler's
        return ""
    return "" if all(map(_is_same, here, found)) else "workers make other batches of the same samples"


def _batch_of(loader: DataLoader[Any], numbers: list[int]) -> Any:
    of_batches = getattr(loader.dataset, "__getitems__", None)
    return loader.collate_fn(of_batches(numbers) if of_batches else [loader.dataset[number] for number in numbers])


def _in_workers(
    loader: DataLoader[Any], batches: list[list[int]], collate: Callable[[list[Any]], Any]
) -> DataLoader[Any]:
    """Return a loader of these batches by two workers."""
    return DataLoader(
        loader.dataset,
        batch_sampler=batches,
        collate_fn=collate,
        num_workers=2,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        timeout=_WORKER_SECONDS,
        generator=torch.Generator(),  # no number is taken from those of the process
    )


def _make_batches(loader: DataLoader[Any], samples: list[Any], numbers: list[int]) -> bool:
    """Make a batch of these samples twice, as a loader does; return whether that draws from shared generators."""
    own = generators_of(loader.collate_fn)
    of_batches = getattr(loader.dataset, "__getitems__", None)

    def make() -> Any:
        loaded = of_batches(numbers) if of_batches else samples
        return loader.collate_fn(loaded) if loader.batch_sampler is not None else [*map(loader.collate_fn, samples)]

    if not samples:
        return False
    return _load_twice(make, own, "making a batch of samples", "batches of the same samples differ each time").drew


def _load_twice(load: Callable[[], Any], own: list[State], what: str, if_differs: str) -> _Loaded:
    """Return what is the same twice: from two states of the shared generators, or from one if it draws from them.

    Raises:
        _Found: If it is not the same, or draws from a generator of its own.
    """
    once = _watched(load, own, 0, what)
    twice = _watched(load, own, 0 if once.drew else 1, what)
    if not _is_same(once.loaded, twice.loaded):
        raise _Found(if_differs)
    return _Loaded(once.loaded, once.drew or twice.drew)


def _watched(load: Callable[[], Any], own: list[State], seed: int, what: str) -> _Loaded:
    """Return what is loaded from such a state of the shared generators.

    Raises:
        _Found: If it draws from a generator of its own, whose copies in workers may all give the same.
    """
    with Apart(seed):
        shared, before = state_of(), state_of(own, shared=False)
        loaded = load()
        if state_of(own, shared=False) != before:
            raise _Found(_draws(what))
        return _Loaded(loaded, state_of() != shared)


def _draws(what: str) -> str:
    return f"{what} draws random numbers, and workers draw different ones"


def _is_same(one: Any, other: Any, depth: int = 0) -> bool:
    """Return whether two samples hold the same numbers; missing ones are the same, and objects are what they hold."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return _is_same_tensor(one, other)
    if isinstance(one, numpy.ndarray):
        return one.shape == other.shape and one.dtype == other.dtype and _is_same_array(one, other)
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key], depth) for key in one)
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(_is_same(*both, depth) for both in zip(one, other, strict=True))
    if depth < _DEEPEST and (held := _held(one)):
        return _is_same(held, _held(other), depth + 1)
    same = one == other
    return bool(same.all() if hasattr(same, "all") else same) or (one != one and other != other)  # NaN


def _is_same_tensor(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.layout != other.layout or one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.layout != torch.strided:
        one, other = one.to_dense(), other.to_dense()
    has_gaps = one.is_floating_point() or one.is_complex()
    return torch.allclose(one, other, rtol=0.0, atol=0.0, equal_nan=True) if has_gaps else torch.equal(one, other)


def _is_same_array(one: Any, other: Any) -> bool:
    return bool(numpy.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))


def _held(thing: Any) -> dict[str, Any]:
    """Return the attributes of an object whose class tells them; that of a dataclass cannot compare tensors."""
    has_own = any("__eq__" in vars(kind) for kind in type(thing).__mro__[:-1])
    if has_own and not dataclasses.is_dataclass(thing):
        return {}
    slots = (slot for kind in type(thing).__mro__ for slot in _names(vars(kind).get("__slots__", ())))
    found = {slot: getattr(thing, slot) for slot in slots if hasattr(thing, slot)}
    return {**found, **getattr(thing, "__dict__", {})}


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def bytes_of(sample: Any) -> int:
    """Return the bytes that the numbers in a sample, or in a batch, take."""
    if isinstance(sample, torch.Tensor):
        return bytes_of_tensor(sample)
    if parts := parts_of(sample):
        return sum(map(bytes_of, parts))
    return int(getattr(sample, "nbytes", sys.getsizeof(sample)))
