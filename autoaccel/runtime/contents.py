"""What samples are made of, so that it can be told later whether that is still the same."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy
import torch

from autoaccel.runtime.held import (
    COLLECTIONS,
    MAX_LOOKED_INTO,
    MAX_OF_ONE,
    PLAIN,
    is_foreign,
    last_of,
    may_read,
    walk,
)

_WHOLE_BYTES = 64 << 20  # of numbers that are compared one by one; of more, a few
_SAMPLED = 4096


class Kept(NamedTuple):
    """What changes if a thing does."""

    value: Hashable
    is_foreign: bool  # an attribute of what loads samples in code that is not the user's: all of them may be read


def values_in(roots: Iterable[Any]) -> dict[str, Kept]:
    """Return a value for each number, text, array and collection that can be reached, which changes if that changes."""
    found: dict[str, Kept] = {}
    for held in walk(roots):
        value = _value(held.thing)
        if value is not None:
            found[held.name] = Kept(value, is_foreign(held.holder))
    return found


def changed_between(before: Mapping[str, Kept], now: Mapping[str, Kept], names: frozenset[str]) -> str:
    """Return the name of what has another value than before, and is read by loading; empty if nothing has."""
    for name in [*before, *now]:
        one = now.get(name, before.get(name))
        is_read = may_read(names, last_of(name)) or (one is not None and one.is_foreign)
        if is_read and before.get(name) != now.get(name):
            return name
    return ""


class Contents:
    """All that can be reached from some things, as it is now."""

    def __init__(self, roots: Iterable[Any]) -> None:
        """Look at it.

        Args:
            roots: What it is reached from.
        """
        self._held = [(held.name, held.thing, _value(held.thing)) for held in walk(roots)]
        self.is_whole = len(self._held) < MAX_LOOKED_INTO and not any(_hides(thing) for _, thing, _ in self._held)
        """Whether nothing of it was left out."""

    def __eq__(self, other: object) -> bool:
        """Whether it is the same objects that hold the same."""
        if not isinstance(other, Contents) or len(self._held) != len(other._held):
            return False
        return all(
            one[0] == two[0] and one[2] == two[2] and (one[1] is two[1] or isinstance(one[1], PLAIN))
            for one, two in zip(self._held, other._held, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # what it holds changes


def _hides(thing: Any) -> bool:
    """Whether a collection has more elements than are looked at one by one, and needs to."""
    return isinstance(thing, (Mapping, *COLLECTIONS)) and len(thing) > MAX_OF_ONE and _hash_of(thing) is None


def _value(thing: Any) -> Hashable | None:
    """Return what changes if a thing does; None if its parts tell that, or nothing does."""
    if isinstance(thing, PLAIN):
        return type(thing).__name__, repr(thing)[:1000]
    if isinstance(thing, torch.Tensor):
        # Torch counts what is done to a tensor in place (not by way of an array that shares its memory).
        version = 0 if thing.is_inference() else thing._version
        return "tensor", tuple(thing.shape), version, _digest(thing)
    if isinstance(thing, numpy.memmap):
        return None
    if isinstance(thing, numpy.ndarray):
        return "array", thing.shape, _digest(thing)
    if isinstance(thing, (Mapping, *COLLECTIONS)):
        with contextlib.suppress(Exception):
            return "collection", len(thing), _hash_of(thing)
    return None


def _hash_of(many: Any) -> int | None:
    """Return a number for the elements of a collection; None if their parts tell what they are."""
    values = many.values() if isinstance(many, Mapping) else many
    if not isinstance(next(iter(values), None), (*PLAIN, tuple)):
        return None
    with contextlib.suppress(TypeError):  # something in it has no hash
        return hash(frozenset(values) if isinstance(many, (set, frozenset)) else tuple(values))
    return None


def _digest(thing: Any) -> Hashable:
    """Return a number for what a tensor or an array holds, or a part of it; 0 where that is out of reach."""
    with contextlib.suppress(Exception):  # sparse tensors, objects, other devices
        if isinstance(thing, torch.Tensor):
            if thing.device.type != "cpu":
                return 0
            thing = thing.detach().view(torch.uint8).numpy() if thing.is_contiguous() else thing.detach().numpy()
        if thing.dtype == object:
            return 0
        if thing.nbytes > _WHOLE_BYTES:
            thing = thing.reshape(-1)[:: max(1, thing.size // _SAMPLED)]
        return zlib.adler32(numpy.ascontiguousarray(thing).view(numpy.uint8).reshape(-1).data)
    return 0
