"""What loading a sample can reach: attributes of a dataset and theirs, what functions have bound, globals they use."""

from __future__ import annotations

import collections
import contextlib
import dis
import functools
import gc
import inspect
import io
import itertools
import socket
import sqlite3
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy
import torch
import torch.utils.data

from autoaccel.runtime.script.entry import installed_folders

_INSTALLED = (*installed_folders(), "<")
_DEEPEST = 6  # attributes of attributes
MAX_LOOKED_INTO = 3000  # objects
MAX_OF_ONE = 100  # a dataset may hold a list of a million paths

_LIBRARIES_OF_HANDLES = frozenset(
    {"h5py", "lmdb", "netCDF4", "psycopg", "psycopg2", "pymysql", "redis", "rocksdb", "av"}
)
"""Libraries whose objects hold a file, or a connection, that processes must not share after a fork."""

_READS = frozenset(
    {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"}
    | {"LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS"}
)
"""Of Python 3.10 to 3.14: what reads something that is not the function's own."""
_READS_GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})

COLLECTIONS = (tuple, list, set, frozenset, collections.deque)
_OF_MODULES = frozenset(vars(torch.nn.Module()))
PLAIN = (str, bytes, int, float, complex, bool, type(None))
_ANY_NAME = frozenset(
    {"getattr", "vars", "__dict__", "__getattribute__"}
)  # what reads attributes by names unknown here


class Held(NamedTuple):
    """Something that can be reached, and the way to it, such as "Samples.transform.factor"."""

    name: str
    thing: Any
    holder: Any = None  # the object that has it as an attribute, or in a collection; None for what the walk begins with
    is_cut: bool = False  # whether the walk ends at it, though it has parts


def walk(roots: Iterable[Any]) -> Iterator[Held]:
    """Yield what can be reached from these things, each once, themselves included.

    The user's own functions are followed into what they have bound and the globals that they name; installed ones are
    not. At most 3,000 objects, six deep, are looked at, and of a collection the first hundred.
    """
    seen: dict[int, Any] = {}  # kept, so that no other object gets the same id
    left = collections.deque((Held(_name_of(root), root), 0) for root in roots)
    while left and len(seen) < MAX_LOOKED_INTO:
        held, depth = left.popleft()
        if isinstance(held.thing, PLAIN):
            yield held
            continue
        if id(held.thing) in seen:
            continue
        seen[id(held.thing)] = held.thing
        yield held if depth < _DEEPEST else held._replace(is_cut=next(_parts(held), None) is not None)
        if depth < _DEEPEST:
            is_within = held.holder is not None and isinstance(held.thing, (Mapping, *COLLECTIONS))
            holder = held.holder if is_within else held.thing
            left += [(Held(name, part, holder), depth + 1) for name, part in _parts(held)]


def _name_of(root: Any) -> str:
    """Return what a person calls it: a function by its name, and a method by the object that it is of."""
    if isinstance(root, FunctionType):
        return root.__name__
    return type(root.__self__ if isinstance(root, MethodType) else root).__name__


def handle_in(roots: Iterable[Any]) -> str:
    """Return the way to an open file or connection, whose place processes share after a fork; empty if there is none.

    One that is only written to is no such thing, nor is one that has no descriptor, nor one that loading never reads.
    """
    roots = list(roots)
    handles = [held for held in walk(roots) if _is_handle(held.thing)]
    names = names_read(roots) if handles else frozenset()
    return next((held.name for held in handles if not _is_unread(held, names)), "")


def _is_unread(held: Held, names: frozenset[str]) -> bool:
    """Whether an attribute of an object of the user's is read by its constructor alone: a file that was mapped, say."""
    is_attribute = held.name.endswith(f".{last_of(held.name)}")
    is_of_users = held.holder is not None and next(functions_of(type(held.holder)), None) is not None
    return is_attribute and is_of_users and not may_read(names, last_of(held.name))


def trained_in(roots: Iterable[Any], trained: Collection[int]) -> str:
    """Return the way to a module or tensor that is being trained; empty if there is none.

    Args:
        roots: What loads samples.
        trained: Ids of all parameters that are.
    """
    return next((held.name for held in walk(roots) if _is_trained(held.thing, trained)), "")


def _is_trained(thing: Any, trained: Collection[int]) -> bool:
    parameters = thing.parameters() if isinstance(thing, torch.nn.Module) else [thing]
    return any(id(one) in trained for one in parameters)


def computes_with_trained(name: str) -> str:
    """Return why nobody else may load samples that are computed with what is trained."""
    return f"samples are computed with what is trained ({name}), and workers have what it was when they began"


def names_read(roots: Iterable[Any]) -> frozenset[str]:
    """Return the names of attributes and globals that the user's own functions read there when samples are loaded.

    Those are what is given, methods with names of Python's own but the constructor, such as `__getitem__`, and all that
    these name. A method that nothing of them names, such as one that reports, is called by the training alone.
    """
    roots = list(roots)
    given = {id(getattr(root, "__func__", root)) for root in roots}
    left = [held.thing for held in walk(roots) if isinstance(held.thing, FunctionType)]
    left = [one for one in left if one.__name__ != "__init__" and is_users(one)]
    names: frozenset[str] = frozenset()
    while called := [one for one in left if id(one) in given or _is_called(one.__name__, names)]:
        names = names.union(*(_loads(one.__code__) for one in called))
        left = [one for one in left if one not in called]
    return names


def _is_called(function: str, names: frozenset[str]) -> bool:
    """Whether a function of this name is called by Python itself, or by functions that read these names."""
    return (
        (function.startswith("__") and function.endswith("__")) or function == "<lambda>" or may_read(names, function)
    )


def may_read(names: frozenset[str], name: str) -> bool:
    """Whether functions that read these names may read this one: some ask for names that nobody has written down."""
    return name in names or bool(names & _ANY_NAME)


def is_foreign(thing: Any) -> bool:
    """Whether a thing loads samples by code that is not the user's, so that any of its attributes may be read."""
    loads = isinstance(thing, (torch.utils.data.Dataset, torch.utils.data.Sampler)) or callable(thing)
    if not loads or isinstance(thing, (type, FunctionType, MethodType, BuiltinMethodType)):
        return False
    file = getattr(sys.modules.get(type(thing).__module__), "__file__", None) or "<"
    return file.startswith(_INSTALLED)


def last_of(name: str) -> str:
    """Return the attribute or variable at which a way ends: "rows" of "Samples.parts[0].rows[3]"."""
    while name.endswith("]"):
        name = name.rpartition("[")[0]
    return name.rpartition(".")[2]


def changed_as_it_trains(name: str) -> str:
    """Return why nobody else may load samples where the training changes what they come from."""
    return f"the training changes {name} as it trains, and workers have what it was when they began"


def functions_of(kind: type) -> Iterator[FunctionType]:
    """Yield the methods of a class that the user's own code defines, its constructor left out."""
    for each in kind.__mro__:
        for value in list(vars(each).values()):
            plain = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            plain = inspect.unwrap(plain) if callable(plain) else plain  # of a decorator, such as torch.no_grad()
            if isinstance(plain, FunctionType) and is_users(plain) and plain.__name__ != "__init__":
                yield plain


def is_users(function: FunctionType) -> bool:
    """Whether a function is of the user's own code."""
    return not function.__code__.co_filename.startswith(_INSTALLED)


def _parts(held: Held) -> Iterator[tuple[str, Any]]:
    name, thing = held.name, held.thing
    if isinstance(thing, (torch.Tensor, numpy.ndarray, ModuleType, type, torch.Generator)):
        return
    if isinstance(thing, torch.nn.Module):  # a transform, mostly; what a large model is made of is too much
        own = {name: value for name, value in vars(thing).items() if name not in _OF_MODULES or name == "training"}
        parts = {**thing._parameters, **thing._buffers, **thing._modules, **own}
        yield from ((f"{name}.{part}", value) for part, value in itertools.islice(parts.items(), MAX_OF_ONE))
        yield from ((f"{name}.{function.__name__}", function) for function in functions_of(type(thing)))
        return
    if isinstance(thing, Mapping):
        with contextlib.suppress(Exception):  # whatever a class of the user's raises
            yield from ((f"{name}[{key!r}]"[:200], value) for key, value in itertools.islice(thing.items(), MAX_OF_ONE))
    elif isinstance(thing, COLLECTIONS):
        yield from ((f"{name}[{place}]", part) for place, part in enumerate(itertools.islice(thing, MAX_OF_ONE)))
    if isinstance(thing, functools._lru_cache_wrapper):
        kept = (one for one in gc.get_referents(thing) if not isinstance(one, (type, str)) and one is not vars(thing))
        yield from ((f"{name}[{place}]", one) for place, one in enumerate(itertools.islice(kept, MAX_OF_ONE)))
    if isinstance(thing, functools.partial):
        yield from ((name, thing.func), (name, thing.args), (name, thing.keywords))
    elif isinstance(thing, (MethodType, BuiltinMethodType)):
        yield name, thing.__self__
        if isinstance(thing, MethodType):
            yield name, thing.__func__
    elif isinstance(thing, FunctionType):
        yield from _of_function(name, thing)
    else:
        yield from _of_object(name, thing)


def _of_object(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield attributes, and methods of the user's own."""
    yield from ((f"{name}.{attribute}", value) for attribute, value in list(getattr(thing, "__dict__", {}).items()))
    for kind in type(thing).__mro__:
        slots = vars(kind).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else tuple(slots):
            with contextlib.suppress(AttributeError, TypeError):
                yield f"{name}.{slot}", getattr(thing, slot)
        if kind is not object and not (kind.__module__ or "").startswith("torch."):
            yield from (
                (f"{name}.{attribute}", value)
                for attribute, value in list(vars(kind).items())
                if not hasattr(type(value), "__get__")  # functions, properties and the like
                and not isinstance(value, type)
                and not attribute.startswith("__")
                and attribute not in getattr(thing, "__dict__", {})
            )
    yield from ((f"{name}.{function.__name__}", function) for function in functions_of(type(thing)))


def _of_function(name: str, function: FunctionType) -> Iterator[tuple[str, Any]]:
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # an empty one
            yield variable, cell.cell_contents
    yield from ((name, value) for value in (function.__defaults__ or ()))
    if not is_users(function):
        return
    names = _loads(function.__code__)
    # An attribute may be called as a variable of the file is: `self.x`, and the `x` of its training loop.
    for variable in sorted(globals_read(function.__code__) & function.__globals__.keys()):
        value = function.__globals__[variable]
        if not isinstance(value, ModuleType):
            yield variable, value
        elif not (getattr(value, "__file__", None) or "<").startswith(_INSTALLED):
            yield from ((f"{variable}.{inner}", vars(value)[inner]) for inner in sorted(names & vars(value).keys()))


def _loads(code: CodeType) -> frozenset[str]:
    """Return the names of attributes and variables that a function reads, those within it included."""
    return _read_by(code, _READS)


def globals_read(code: CodeType) -> frozenset[str]:
    """Return the names of global variables that a function reads, those within it included."""
    return _read_by(code, _READS_GLOBALS)


@functools.lru_cache(maxsize=4096)
def _read_by(code: CodeType, operations: frozenset[str]) -> frozenset[str]:
    inner = [_read_by(one, operations) for one in code.co_consts if isinstance(one, CodeType)]
    own = {str(one.argval) for one in dis.get_instructions(code) if one.opname in operations}
    return frozenset(own).union(*inner)


def stores(code: CodeType) -> frozenset[str]:
    """Return the names of attributes and globals that a function sets."""
    kinds = ("STORE_ATTR", "STORE_GLOBAL", "DELETE_ATTR")
    return frozenset(str(one.argval) for one in dis.get_instructions(code) if one.opname in kinds)


def _is_handle(thing: Any) -> bool:
    if isinstance(thing, (socket.socket, sqlite3.Connection)):
        return True
    if isinstance(thing, io.IOBase):
        try:
            return not thing.closed and thing.readable() and thing.fileno() > 2
        except (OSError, ValueError):  # none of the kernel's
            return False
    kind = type(thing)
    module = kind.__module__ or ""
    is_known = module.partition(".")[0] in _LIBRARIES_OF_HANDLES or module == "multiprocessing.connection"
    return is_known or (kind.__name__ == "Environment" and "lmdb" in sys.modules)
