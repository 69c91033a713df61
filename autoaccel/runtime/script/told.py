"""What the code around an update changes of what loads the samples, by its source: perhaps in a later epoch.

Nothing is run. Functions and methods of the user's own that the loops call are read as well, with what they are given.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterable, Sequence
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from autoaccel.runtime.held import (
    Held,
    functions_of,
    globals_read,
    is_foreign,
    is_users,
    last_of,
    may_read,
    names_read,
    stores,
    walk,
)
from autoaccel.runtime.script.reading import Names, NamesGiven, loops_at, tree_of, unless_unreadable, value_of

_CHANGING = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popleft", "remove", "reverse"}
    | {"setdefault", "sort", "update", "add_", "copy_", "div_", "fill_", "mul_", "sub_", "zero_"}
)
"""Methods of collections, arrays and tensors that change them."""
_CHANGING_ARGUMENTS = frozenset({"shuffle", "heappush", "heappop", "insort", "copyto", "put"})
"""Functions of libraries that change what they are given."""

_LOADING = frozenset({"__getitem__", "__getitems__", "__call__"})  # methods that a loader calls, or a transform has
_DEEPEST = 4  # calls of calls
_MAX_CALLS = 200  # that are read
_MAX_RETURNS = 500  # of functions, that are looked at for what they return
_MAX_ELEMENTS = 20  # of a list that a loop goes through, such as one of callbacks


class _Scope:
    """What names stand for in code that is read, as far as that is known."""

    def __init__(self, names: Names, sets_globals: frozenset[str] | None = frozenset()) -> None:
        """Begin with what is known.

        Args:
            names: What they stand for when the code begins.
            sets_globals: Those that are global variables when they are set; None: all.
        """
        self.f_locals = dict(names.f_locals)
        self.f_globals = names.f_globals
        self.sets_globals = sets_globals

    def assign(self, target: ast.expr, value: Any) -> None:
        """Let a name stand for a value; None: for something that is not known."""
        if isinstance(target, ast.Name) and value is not None:
            self.f_locals[target.id] = value
        elif isinstance(target, ast.Name):
            self.f_locals.pop(target.id, None)

    def is_global(self, name: str) -> bool:
        """Whether an assignment to a name sets a global variable."""
        return self.sets_globals is None or name in self.sets_globals


def told_in_loops(frames: Sequence[FrameType], sources: Iterable[Any], within_epoch: bool = False) -> str:
    """Return what of these things the code of the loops that frames are in changes; empty if nothing can be read there.

    Args:
        frames: Of the user's own code, the innermost first.
        sources: What loads samples, or decides on their order.
        within_epoch: Whether only the innermost loop counts: between epochs the training's own process is asked.
    """
    sources = list(sources)
    reader = _Reader(sources)
    if not within_epoch and (told := reader.told_each_epoch()):
        return told
    for frame in frames:
        tree = tree_of(frame.f_code.co_filename)
        loops = loops_at(tree, frame) if tree is not None else []
        if within_epoch:
            loops = loops[-1:]
        scope = _Scope(frame, None if frame.f_locals is frame.f_globals else frozenset())
        if loops and (found := reader.changed_in(loops[:1], scope)):
            return found
        if loops and within_epoch:
            break
    return ""


def counted_by_loading(sources: Iterable[Any]) -> str:
    """Return a count of loads on which samples depend; empty if there is none.

    That is a number that one function of the user's both makes larger and reads.
    """
    for one in walk(sources):
        if not (isinstance(one.thing, FunctionType) and is_users(one.thing) and one.thing.__name__ in _LOADING):
            continue
        nodes = list(ast.walk(definition)) if (definition := _definition_of(one.thing)) is not None else []
        counted = {ast.unparse(node.target) for node in nodes if isinstance(node, ast.AugAssign)}
        read = {
            ast.unparse(node)
            for node in nodes
            if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load)
        }
        outside = {name for name in counted & read if "." in name or name in _declared_in(nodes)}
        if outside:
            return min(outside)
    return ""


def _declared_in(nodes: Iterable[ast.AST]) -> set[str]:
    return {name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}


class _Reader:
    """Knows what loading reaches and reads, and looks for code that changes it."""

    def __init__(self, sources: Sequence[Any]) -> None:
        reached = list(walk(sources))
        self._held: dict[int, Held] = {id(one.thing): one for one in reached if _may_change(one.thing)}
        self._names = names_read(sources)
        functions = [one.thing for one in reached if isinstance(one.thing, FunctionType) and is_users(one.thing)]
        self._globals = {(id(one.__globals__), name) for one in functions for name in globals_read(one.__code__)}
        self._read: set[tuple[int, int]] = set()
        self._returns = 0

    def told_each_epoch(self) -> str:
        """Return what trainers of libraries tell the epoch, whoever calls them."""
        for one in self._held.values():
            for method in functions_of(type(one.thing)):
                if method.__name__ != "set_epoch":
                    continue
                definition = _definition_of(method)
                scope = _Scope(NamesGiven({method.__code__.co_varnames[0]: one.thing}, method.__globals__))
                if self._sets(method) or (definition is not None and self.changed_in(definition.body, scope)):
                    return f"{one.name} by set_epoch()"
        return ""

    def changed_in(self, code: Iterable[ast.AST], scope: _Scope, depth: int = 0) -> str:
        """Return what some code changes; empty if nothing is seen.

        Args:
            code: Statements.
            scope: What names stand for in it.
            depth: How many calls lead to it.
        """
        for node in code:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                continue  # it is not called here
            if found := self._changed_by(node, scope, depth):
                return found
            if isinstance(node, (ast.For, ast.AsyncFor)) and isinstance(node.target, ast.Name):
                elements = self._value(node.iter, scope, depth)
                for element in elements[:_MAX_ELEMENTS] if type(elements) in (list, tuple) else [None]:
                    scope.assign(node.target, element)
                    if found := self.changed_in(ast.iter_child_nodes(node), scope, depth):
                        return found
            elif found := self.changed_in(ast.iter_child_nodes(node), scope, depth):
                return found
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                scope.assign(node.targets[0], self._value(node.value, scope, depth))
        return ""

    def _value(self, expression: ast.expr, scope: _Scope, depth: int) -> Any:
        """Return what an expression is, if that can be read, also of what a function of the user's returns."""
        found = unless_unreadable(value_of, expression, scope)
        if found is not None or not isinstance(expression, ast.Call) or depth >= _DEEPEST:
            return found
        function, holder = self._function(expression, scope, depth)
        definition = _definition_of(function) if function is not None and is_users(function) else None
        if function is None or definition is None or self._returns >= _MAX_RETURNS:
            return None
        self._returns += 1
        inner = self._inner(function, definition, expression, holder, scope, depth)
        returned = [one.value for one in ast.walk(definition) if isinstance(one, ast.Return) and one.value is not None]
        values = (self._value(one, inner, depth + 1) for one in returned)
        return next((value for value in values if value is not None), None)

    def _function(self, call: ast.Call, scope: _Scope, depth: int) -> tuple[FunctionType | None, Any]:
        """Return the function of a call, and what it is a method of or lies in."""
        holder = self._value(call.func.value, scope, depth) if isinstance(call.func, ast.Attribute) else None
        function = unless_unreadable(value_of, call.func, scope)
        if function is None and holder is not None and isinstance(call.func, ast.Attribute):
            function = getattr(type(holder), call.func.attr, None)
        if isinstance(function, MethodType):
            holder, function = function.__self__, function.__func__
        function = inspect.unwrap(function) if callable(function) else None  # of a decorator
        return (function if isinstance(function, FunctionType) else None), holder

    def _inner(
        self,
        function: FunctionType,
        definition: ast.FunctionDef | ast.AsyncFunctionDef,
        call: ast.Call,
        holder: Any,
        scope: _Scope,
        depth: int,
    ) -> _Scope:
        """Return what names stand for in a function of the user's that is called, as far as that is known."""
        code = function.__code__
        names = list(code.co_varnames[: code.co_argcount])
        is_method = holder is not None and not isinstance(holder, (ModuleType, type)) and bool(names)
        values = {names[0]: holder} if is_method else {}
        values |= {
            name: self._value(one, scope, depth) for name, one in zip(names[is_method:], call.args, strict=False)
        }
        values |= {one.arg: self._value(one.value, scope, depth) for one in call.keywords if one.arg is not None}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            values[name] = _contents(cell)
        known = {name: value for name, value in values.items() if value is not None}
        declared = [name for node in ast.walk(definition) if isinstance(node, ast.Global) for name in node.names]
        return _Scope(NamesGiven(known, function.__globals__), frozenset(declared))

    def _changed_by(self, node: ast.AST, scope: _Scope, depth: int) -> str:
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            flat = [inner for one in targets for inner in (one.elts if isinstance(one, ast.Tuple) else [one])]
            return next((found for one in flat if (found := self._assigned(one, scope, depth))), "")
        return self._called(node, scope, depth) if isinstance(node, ast.Call) else ""

    def _assigned(self, target: ast.expr, scope: _Scope, depth: int) -> str:
        if isinstance(target, (ast.Attribute, ast.Subscript)):
            one = self._held.get(id(self._value(target.value, scope, depth)))
            if one is None:
                return ""
            if isinstance(target, ast.Subscript):
                return one.name if self._reads(one) else ""
            is_read = may_read(self._names, target.attr) or is_foreign(one.thing)
            return f"{one.name}.{target.attr}" if is_read else ""
        if isinstance(target, ast.Name) and (id(scope.f_globals), target.id) in self._globals:
            return target.id if scope.is_global(target.id) else ""
        return ""

    def _called(self, call: ast.Call, scope: _Scope, depth: int) -> str:
        """Return what a call changes; empty if nothing is seen."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        function, holder = self._function(call, scope, depth)
        given = [self._value(one, scope, depth) for one in (*call.args, *(each.value for each in call.keywords))]
        touched = [self._held[id(one)].name for one in (holder, *given) if id(one) in self._held]
        if function is not None and is_users(function):
            if touched and self._sets(function):
                return f"{touched[0]} by {name}()"
            return self._changed_within(function, call, holder, scope, depth)
        if name == "setattr" and len(call.args) == 3:
            return self._set_by_name(given)
        changed = [holder] if name in _CHANGING else given if name in _CHANGING_ARGUMENTS else []
        read = [self._held[id(one)] for one in changed if id(one) in self._held]
        return next((one.name for one in read if self._reads(one)), "")

    def _reads(self, one: Held) -> bool:
        """Whether loading reads a thing, by the name of the attribute or variable that it is."""
        return may_read(self._names, last_of(one.name)) or is_foreign(one.holder)

    def _set_by_name(self, given: Sequence[Any]) -> str:
        """Return what `setattr` changes of a thing, given both and a value."""
        one, name = self._held.get(id(given[0])), given[1]
        if one is None or (isinstance(name, str) and not (may_read(self._names, name) or is_foreign(one.thing))):
            return ""
        return f"{one.name}.{name}" if isinstance(name, str) else one.name

    def _changed_within(self, function: FunctionType, call: ast.Call, holder: Any, scope: _Scope, depth: int) -> str:
        """Return what a function of the user's changes in a call."""
        read = (id(function.__code__), id(holder))
        definition = _definition_of(function)
        if depth >= _DEEPEST or len(self._read) >= _MAX_CALLS or read in self._read or definition is None:
            return ""
        self._read.add(read)
        inner = self._inner(function, definition, call, holder, scope, depth)
        return self.changed_in(definition.body, inner, depth + 1)

    def _sets(self, function: FunctionType) -> bool:
        """Whether a function sets an attribute or a global that loading reads; without its source, if it may."""
        if any(may_read(self._names, name) for name in stores(function.__code__)):
            return True
        return _definition_of(function) is None and bool(_CHANGING & set(function.__code__.co_names))


def _definition_of(function: FunctionType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    return _definition_at(function.__code__)


@functools.lru_cache(maxsize=4096)
def _definition_at(code: CodeType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    tree = tree_of(code.co_filename)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if first <= code.co_firstlineno <= node.lineno:
                return node
    return None


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty one
        return None


def _may_change(thing: Any) -> bool:
    return not isinstance(thing, (str, bytes, int, float, type(None), FunctionType, MethodType, torch.nn.Module))
