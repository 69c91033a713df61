"""Generators of random numbers: those that a whole process shares, torch's, numpy's and Python's own, and others."""

from __future__ import annotations

import contextlib
import pickle
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType, MethodType, TracebackType
from typing import Any

import numpy
import torch

from autoaccel.runtime.held import last_of, may_read, names_read, walk

_NUMPY_SEEDS = 2**32  # numpy takes no larger ones


def seed_all(seed: int) -> None:
    """Seed all shared generators, including those of accelerators."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed % _NUMPY_SEEDS)


def random_states(device: torch.device) -> dict[str, Any]:
    """Return the states of all shared generators and of the device's, as numbers, texts and tensors."""
    numbers = numpy.random.get_state(legacy=False)
    assert isinstance(numbers, dict)  # for it is not asked for in its old form
    inner = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in numbers["state"].items()}
    states = {"torch": torch.get_rng_state(), "python": random.getstate(), "numpy": {**numbers, "state": inner}}
    return states if device.type == "cpu" else {**states, device.type: _module(device).get_rng_state(*_named(device))}


def restore_random_states(states: Mapping[str, Any], device: torch.device) -> None:
    """Restore what `random_states` has returned; the generator of any other device stays as it is."""
    torch.set_rng_state(states["torch"])
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    numpy.random.set_state(states["numpy"])
    if device.type in states:
        _module(device).set_rng_state(states[device.type], *_named(device))


@contextlib.contextmanager
def same_random_numbers_after(device: torch.device) -> Iterator[None]:
    """Restore the shared generators and the device's generator at the end of the block."""
    states = random_states(device)
    try:
        yield
    finally:
        restore_random_states(states, device)


def _module(device: torch.device) -> Any:
    return getattr(torch, device.type)


def _named(device: torch.device) -> tuple[torch.device, ...]:
    return () if device.type == "mps" else (device,)  # of which there is one only


class Apart:
    """Random numbers apart from those of the process: inside of `with`, the shared generators give these.

    What is drawn inside does not depend on what was drawn outside, and the other way round. It begins as the generators
    are after `seed_all(seed)`, accelerators' excepted, which stay what they are.
    """

    def __init__(self, seed: int) -> None:
        self._torch = torch.Generator().manual_seed(seed).get_state()
        self._python = random.Random(seed).getstate()
        # A generator is exchanged for another in half a microsecond; to read and write the state takes numpy 140.
        numbers = numpy.random.MT19937()
        numpy.random.RandomState(numbers).seed(seed % _NUMPY_SEEDS)
        self._numpy: numpy.random.BitGenerator = numbers

    def __enter__(self) -> None:
        self._exchange()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exchange()

    def _exchange(self) -> None:
        other_torch, other_python = torch.get_rng_state(), random.getstate()
        torch.set_rng_state(self._torch)
        random.setstate(self._python)
        other_numpy = numpy.random.get_bit_generator()  # type: ignore[attr-defined]  # not in its stubs
        numpy.random.set_bit_generator(self._numpy)  # type: ignore[attr-defined]  # not in its stubs
        self._torch, self._python, self._numpy = other_torch, other_python, other_numpy


State = Callable[[], Any]
"""Returns the state of a generator."""


def _behind(function: Any) -> Any:
    """Return the generator whose method a module offers as a function."""
    return function.__self__


_SHARED = (torch.default_generator, _behind(random.random), _behind(numpy.random.random))


def state_of(others: Iterable[State] = (), *, shared: bool = True) -> bytes:
    """Return the state of the generators that the process shares, unless it is not asked for, and of others."""
    of_process = (torch.get_rng_state().numpy().tobytes(), random.getstate(), numpy.random.get_state())
    return pickle.dumps((of_process if shared else (), [state() for state in others]))


def generators_of(thing: Any) -> list[State]:
    """Return the generators that can be reached from an object, and those that lie in the modules of what is.

    See `autoaccel.runtime.held.walk`; those that the process shares are left out.
    """
    found: dict[int, State] = {}
    modules: set[str] = set()
    for held in walk([thing]):
        home = held.thing if isinstance(held.thing, (FunctionType, MethodType)) else type(held.thing)
        module = sys.modules.get(home.__module__ or "")
        is_new = module is not None and module.__name__ not in modules
        for one in (held.thing, *(list(vars(module).values()) if module is not None and is_new else ())):
            if state := _own_state(one):
                found[id(one)] = state
        if module is not None:
            modules.add(module.__name__)
    return list(found.values())


def generator_read_in(roots: Iterable[Any]) -> str:
    """Return the way to a generator that loading reads, whether or not it has drawn from it yet; empty if none.

    Those that the process shares are left out.
    """
    roots = list(roots)
    found = [held.name for held in walk(roots) if _own_state(held.thing)]
    names = names_read(roots) if found else frozenset()
    return next((name for name in found if may_read(names, last_of(name))), "")


def _own_state(thing: Any) -> State | None:
    """Return how to ask a generator for its state; None if it is no generator, or one that the process shares."""
    if any(thing is one for one in _SHARED):
        return None
    if isinstance(thing, torch.Generator):
        return lambda: thing.get_state().numpy().tobytes()
    if isinstance(thing, numpy.random.Generator):
        return lambda: thing.bit_generator.state
    if isinstance(thing, numpy.random.RandomState):
        return thing.get_state
    return thing.getstate if isinstance(thing, random.Random) else None
