"""What samples are made of, so that it can be told later whether that is still the same."""

from __future__ import annotations

import contextlib
import functools
import struct
import zlib
from collections.abc import Hashable, Iterable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
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
_POINTER_BYTES = struct.calcsize("P")
_TOLD = (*PLAIN, torch.Tensor, numpy.ndarray, functools.partial, functools._lru_cache_wrapper, FunctionType, MethodType)
"""What has a value, or parts that are walked through."""
_UNCHANGING = (BuiltinFunctionType, ModuleType, type, range, slice)
_OF_UNCHANGING = frozenset({"torch", "numpy", "re", "datetime", "pyarrow", "_thread", "_abc"})
"""Packages whose objects of C, beside those that are told, say nothing of samples, or stay what they are."""


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
        held = list(walk(roots))
        self._things = [one.thing for one in held]
        self._values = [_value(one) for one in self._things]
        looked_into = sum(not isinstance(one, PLAIN) for one in self._things)
        self.is_whole = looked_into < MAX_LOOKED_INTO and not any(one.is_cut or _hides(one.thing) for one in held)
        """Whether nothing of it was left out."""

    def __eq__(self, other: object) -> bool:
        """Whether it is the same objects that hold the same."""
        if not isinstance(other, Contents) or self._values != other._values:
            return False
        return all(
            one is two or (isinstance(one, PLAIN) and one == two)
            for one, two in zip(self._things, other._things, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # what it holds changes


def _hides(thing: Any) -> bool:
    """Whether a thing may change without a change of its value, or of what can be reached from it."""
    if isinstance(thing, (Mapping, *COLLECTIONS)):
        return len(thing) > MAX_OF_ONE and _hash_of(thing) is None
    if isinstance(thing, numpy.ndarray) and not isinstance(thing, numpy.memmap):
        return bool(thing.dtype.hasobject or thing.nbytes > _WHOLE_BYTES)
    return not isinstance(thing, (*_TOLD, *_UNCHANGING)) and any(map(_is_of_c, type(thing).__mro__[:-1]))


def _is_of_c(kind: type) -> bool:
    """Whether objects of a class have room for what Python does not see: more than for attributes and slots."""
    if (kind.__module__ or "").partition(".")[0] in _OF_UNCHANGING:
        return False
    base: Any = kind.__base__
    slots = vars(kind).get("__slots__", ())
    pointers = len({slots} if isinstance(slots, str) else set(slots) - {"__dict__", "__weakref__"})
    pointers += kind.__dictoffset__ != base.__dictoffset__
    pointers += kind.__weakrefoffset__ != base.__weakrefoffset__
    return bool(kind.__basicsize__ > base.__basicsize__ + pointers * _POINTER_BYTES or kind.__itemsize__)


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
        if isinstance(many, (set, frozenset)):
            return hash(frozenset(many))
        return hash(tuple(many.items() if isinstance(many, Mapping) else many))
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
