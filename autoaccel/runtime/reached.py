"""Modules that the user's functions reach beside the model, such as a loss with class weights: they move with it."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn


def reached_modules(functions: Iterable[Any]) -> list[nn.Module]:
    """Return the modules that functions are, hold or name, each once.

    That is: a module itself; what a partial holds; the attributes of the object that a method belongs to, or that is
    called itself; and the names that a function takes from around it, functions of the same file included.
    """
    found: dict[int, nn.Module] = {}
    seen: set[int] = set()
    left = list(functions)
    while left:
        thing = left.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, nn.Module):
            found[id(thing)] = thing
        else:
            left.extend(_held_by(thing))
    return list(found.values())


def _held_by(thing: Any) -> Iterator[Any]:
    """Yield what a function, or an object that is called like one, holds."""
    if isinstance(thing, functools.partial):
        yield from _worth_a_look([thing.func, *thing.args, *thing.keywords.values()])
    elif inspect.ismethod(thing):
        owner = thing.__self__
        yield thing.__func__
        yield from [owner] if isinstance(owner, nn.Module) else _modules_among(getattr(owner, "__dict__", {}).values())
    elif inspect.isfunction(thing):
        with contextlib.suppress(ValueError):  # a name that has no value yet
            names = inspect.getclosurevars(thing)
            yield from _worth_a_look(names.nonlocals.values())
            here = thing.__module__
            yield from (
                value
                for value in _worth_a_look(names.globals.values())
                if isinstance(value, nn.Module) or getattr(value, "__module__", None) == here
            )
    elif callable(thing) and not isinstance(thing, type):
        yield from _modules_among(getattr(thing, "__dict__", {}).values())


def _worth_a_look(things: Iterable[Any]) -> Iterator[Any]:
    return (
        thing for thing in things if isinstance(thing, nn.Module) or (callable(thing) and not isinstance(thing, type))
    )


def _modules_among(things: Iterable[Any]) -> Iterator[nn.Module]:
    return (thing for thing in things if isinstance(thing, nn.Module))
