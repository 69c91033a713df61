"""Whether a training changes, while it trains, what its samples are made of: loader workers would not see that."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch.utils.data import DataLoader

from autoaccel.runtime.datasets import why_bound
from autoaccel.runtime.held import (
    Held,
    changed_as_it_trains,
    changed_between,
    functions_of,
    is_users,
    may_read,
    names_read,
    stores,
    values_in,
    walk,
)
from autoaccel.runtime.randomness import Apart, state_of
from autoaccel.runtime.script.given import calls_changing, changes_in_place, is_changing
from autoaccel.runtime.script.reading import loops_at, tree_of, unless_unreadable, value_of

_MAX_SECONDS = 1.0  # for looking, of a training of which somebody waits for the first table
_ORDERED = 50  # samples, or batches of them, of a sampler that is asked


class SampleSources:
    """Sees whether anything that a loader's samples come from changes between two loads of it.

    What changes while a sample is loaded, such as a cache, is the dataset's own affair: it does so in workers as well.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        """Look at it before anything of it is loaded: what is opened then, every process opens for itself."""
        own = (loader.dataset, loader.collate_fn, loader.worker_init_fn)
        self._sources = [one for one in own if one is not None]
        self._loader = loader
        self._order = [loader.batch_sampler if loader.batch_sampler is not None else loader.sampler]
        self._names = names_read(self._sources)
        self._names_of_order = names_read(self._order)
        self._last: tuple[dict[str, Hashable], dict[str, Hashable] | None] | None = None
        self.seconds = 0.0
        """That were spent on looking."""
        self.why = why_bound(loader)
        """Why samples must be loaded where and when the training loads them; empty as long as nothing says so."""

    def epoch_begins(self) -> None:
        """A sampler may be told something between two epochs: it is asked in the training's own process."""
        if self._last is not None:
            self._last = self._last[0], None

    def loads(self) -> None:
        """A batch is about to be drawn."""
        if self._last is not None:
            self._look(self._compare)

    def loaded(self) -> None:
        """A batch was drawn."""
        self._look(self._keep)

    def _look(self, how: Callable[[], None]) -> None:
        if self.why or self.seconds > _MAX_SECONDS:
            return
        began = time.perf_counter()
        try:
            how()
        except Exception as error:  # whatever the user's objects raise where they are asked what nobody asks them
            self.why = f"what its samples come from cannot be looked at ({type(error).__name__})"
        self.seconds += time.perf_counter() - began

    def _keep(self) -> None:
        self._last = values_in(self._sources), values_in(self._order)

    def _compare(self) -> None:
        assert self._last is not None
        before, order = self._last
        if name := changed_between(before, values_in(self._sources), self._names):
            self.why = changed_as_it_trains(name)
        elif order is not None and (name := changed_between(order, values_in(self._order), self._names_of_order)):
            self.why = f"the training decides on the order of samples as it trains ({name}), and workers ask it earlier"

    def read(self, frames: Sequence[FrameType]) -> None:
        """Read whether the loops around an update change anything, perhaps in an epoch that is far away."""
        if not self.why and (name := told_in_loops(frames, self._sources)):
            self.why = changed_as_it_trains(name)

    def ended(self) -> str:
        """Return why samples must be loaded where and when they are; the sampler is asked, and not to be used again."""
        if not self.why and draws_among_others(self._loader):
            self.why = "its sampler draws random numbers between those of the training, and workers ask it earlier"
        return self.why


def told_in_loops(frames: Sequence[FrameType], sources: Iterable[Any]) -> str:
    """Return what of these things the code of the loops that frames are in changes; empty if nothing can be read there.

    Args:
        frames: Of the user's own code.
        sources: What loads samples.
    """
    held = {id(one.thing): one for one in walk(sources) if _may_change(one.thing)}
    names = names_read(sources)
    if told := _told_each_epoch(held, names):
        return told
    for frame in frames:
        tree = tree_of(frame.f_code.co_filename)
        loops = loops_at(tree, frame) if tree is not None else []
        for node in ast.walk(loops[0]) if loops else ():
            if found := _changed_by(node, frame, held, names):
                return found
    return ""


def _told_each_epoch(held: dict[int, Held], names: frozenset[str]) -> str:
    """Return what trainers of libraries tell the epoch, whoever calls them."""
    for one in held.values():
        for method in functions_of(type(one.thing)):
            if method.__name__ == "set_epoch" and _sets(method, names):
                return f"{one.name} by set_epoch()"
    return ""


def _changed_by(node: ast.AST, frame: FrameType, held: dict[int, Held], names: frozenset[str]) -> str:
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        flat = [inner for one in targets for inner in (one.elts if isinstance(one, ast.Tuple) else [one])]
        return next((found for one in flat if (found := _assigned(one, frame, held, names))), "")
    return _called(node, frame, held, names) if isinstance(node, ast.Call) else ""


def _assigned(target: ast.expr, frame: FrameType, held: dict[int, Held], names: frozenset[str]) -> str:
    if isinstance(target, (ast.Attribute, ast.Subscript)):
        one = held.get(id(unless_unreadable(value_of, target.value, frame)))
        if one is None:
            return ""
        if isinstance(target, ast.Subscript):
            return one.name
        return f"{one.name}.{target.attr}" if may_read(names, target.attr) else ""
    is_global = isinstance(target, ast.Name) and frame.f_locals is frame.f_globals
    if is_global and any(target.id == one.name for one in held.values()):  # type: ignore[attr-defined]  # a Name
        return target.id  # type: ignore[attr-defined, no-any-return]
    return ""


def _called(call: ast.Call, frame: FrameType, held: dict[int, Held], names: frozenset[str]) -> str:
    """Return what a call changes: a method of what loads samples, or a function that is given it."""
    of = unless_unreadable(value_of, call.func.value, frame) if isinstance(call.func, ast.Attribute) else None
    if isinstance(call.func, ast.Attribute) and (one := held.get(id(of))) is not None:
        method = getattr(type(one.thing), call.func.attr, None)
        if isinstance(method, FunctionType):
            changes = _stores_what_is_read(method, names) or changes_in_place(method, [0], held)
            return f"{one.name} by {call.func.attr}()" if changes else ""
        return one.name if is_changing(call.func.attr) else ""
    function = unless_unreadable(value_of, call.func, frame)
    if isinstance(function, MethodType):
        of = function.__self__
        function = function.__func__
    if not (isinstance(function, FunctionType) and is_users(function)):
        return ""
    given = [id(unless_unreadable(value_of, one, frame)) for one in call.args]
    if not (places := [place for place, one in enumerate(given) if one in held]):
        return ""
    is_method = of is not None and not isinstance(of, (ModuleType, type))
    owner = {"owner": of} if is_method else {}
    if not (
        _stores_what_is_read(function, names)
        or changes_in_place(function, [place + is_method for place in places], held, **owner)
    ):
        return ""
    return f"{held[given[places[0]]].name} by {function.__name__}()"


def _sets(function: FunctionType, names: frozenset[str]) -> bool:
    """Whether a function sets something that loading reads, or changes any collection or array."""
    return _stores_what_is_read(function, names) or calls_changing(function)


def _stores_what_is_read(function: FunctionType, names: frozenset[str]) -> bool:
    return any(may_read(names, name) for name in stores(function.__code__))


def _may_change(thing: Any) -> bool:
    return not isinstance(thing, (str, bytes, int, float, type(None), FunctionType, MethodType, torch.nn.Module))


def draws_among_others(loader: DataLoader[Any]) -> bool:
    """Whether the sampler draws from the generators that a process shares at other moments where workers load.

    Torch's own draw a seed with the first sample of an epoch. One that draws with each sample draws between the numbers
    of the training; one of batches that draws when it is asked for an iterator is asked twice by a loader with workers
    (torch 2.13.0).
    """
    own = "torch.utils.data"
    index = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    if type(index).__module__.startswith(own) and type(loader.sampler).__module__.startswith(own):
        return False
    try:
        with Apart(0):
            before = state_of()
            asked = iter(index)
            if state_of() != before:
                return True
            next(asked, None)
            before = state_of()
            for _, _one in zip(range(_ORDERED), asked, strict=False):
                pass
            return state_of() != before
    except Exception:  # whatever the user's sampler raises
        return False
