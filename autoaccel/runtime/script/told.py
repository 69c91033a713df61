"""What the code around an update changes of what loads the samples, by its source: perhaps in a later epoch.

Nothing is run. Functions and methods of the user's own that the loops call are read as well, with what they are given.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import torch

from autoaccel.runtime.held import Held, functions_of, globals_read, is_users, may_read, names_read, stores, walk
from autoaccel.runtime.script.reading import Names, loops_at, tree_of, unless_unreadable, value_of

_CHANGING = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popleft", "remove", "reverse"}
    | {"setdefault", "sort", "update", "add_", "copy_", "div_", "fill_", "mul_", "sub_", "zero_"}
)
"""Methods of collections, arrays and tensors that change them."""
_CHANGING_ARGUMENTS = frozenset({"shuffle", "heappush", "heappop", "insort", "copyto", "put"})
"""Functions of libraries that change what they are given."""

_DEEPEST = 4  # calls of calls
_MAX_CALLS = 200  # that are read
_MAX_ELEMENTS = 20  # of a list that a loop goes through, such as one of callbacks


class _Scope(NamedTuple):
    """What names stand for in a function that is read, as far as that is known."""

    f_locals: Mapping[str, Any]
    f_globals: Mapping[str, Any]
    declared: frozenset[str] = frozenset()  # by `global`


def told_in_loops(frames: Sequence[FrameType], sources: Iterable[Any]) -> str:
    """Return what of these things the code of the loops that frames are in changes; empty if nothing can be read there.

    Args:
        frames: Of the user's own code.
        sources: What loads samples.
    """
    sources = list(sources)
    reader = _Reader(sources)
    if told := reader.told_each_epoch():
        return told
    for frame in frames:
        tree = tree_of(frame.f_code.co_filename)
        loops = loops_at(tree, frame) if tree is not None else []
        if loops and (found := reader.changed_in(loops[:1], frame)):
            return found
    return ""


class _Reader:
    """Knows what loading reaches and reads, and looks for code that changes it."""

    def __init__(self, sources: Sequence[Any]) -> None:
        reached = list(walk(sources))
        self._held: dict[int, Held] = {id(one.thing): one for one in reached if _may_change(one.thing)}
        self._names = names_read(sources)
        functions = [one.thing for one in reached if isinstance(one.thing, FunctionType) and is_users(one.thing)]
        self._globals = {(id(one.__globals__), name) for one in functions for name in globals_read(one.__code__)}
        self._read: set[tuple[int, int]] = set()

    def told_each_epoch(self) -> str:
        """Return what trainers of libraries tell the epoch, whoever calls them."""
        for one in self._held.values():
            for method in functions_of(type(one.thing)):
                if method.__name__ != "set_epoch":
                    continue
                definition = _definition_of(method)
                scope = _Scope({method.__code__.co_varnames[0]: one.thing}, method.__globals__)
                if self._sets(method) or (definition is not None and self.changed_in(definition.body, scope)):
                    return f"{one.name} by set_epoch()"
        return ""

    def changed_in(self, code: Iterable[ast.AST], names: Names, depth: int = 0) -> str:
        """Return what some code changes; empty if nothing is seen.

        Args:
            code: Statements.
            names: What names stand for in it.
            depth: How many calls lead to it.
        """
        for statement in code:
            for node, scope in _nodes(statement, names):
                if found := self._changed_by(node, scope, depth):
                    return found
        return ""

    def _changed_by(self, node: ast.AST, scope: Names, depth: int) -> str:
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            flat = [inner for one in targets for inner in (one.elts if isinstance(one, ast.Tuple) else [one])]
            return next((found for one in flat if (found := self._assigned(one, scope))), "")
        return self._called(node, scope, depth) if isinstance(node, ast.Call) else ""

    def _assigned(self, target: ast.expr, scope: Names) -> str:
        if isinstance(target, (ast.Attribute, ast.Subscript)):
            one = self._held.get(id(unless_unreadable(value_of, target.value, scope)))
            if one is None:
                return ""
            if isinstance(target, ast.Subscript):
                return one.name
            return f"{one.name}.{target.attr}" if may_read(self._names, target.attr) else ""
        is_read = isinstance(target, ast.Name) and (id(scope.f_globals), target.id) in self._globals
        return target.id if is_read and _is_global(target.id, scope) else ""  # type: ignore[attr-defined]  # a Name

    def _called(self, call: ast.Call, scope: Names, depth: int) -> str:
        """Return what a call changes; empty if nothing is seen."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        holder = unless_unreadable(value_of, call.func.value, scope) if isinstance(call.func, ast.Attribute) else None
        given = [
            unless_unreadable(value_of, one, scope) for one in (*call.args, *(each.value for each in call.keywords))
        ]
        touched = [self._held[id(one)].name for one in (holder, *given) if id(one) in self._held]
        function = unless_unreadable(value_of, call.func, scope)
        if isinstance(function, MethodType):
            holder, function = function.__self__, function.__func__
        if isinstance(function, FunctionType) and is_users(function):
            if touched and self._sets(function):
                return f"{touched[0]} by {name}()"
            return self._changed_within(function, call, holder, scope, depth + 1)
        if name == "setattr" and len(call.args) == 3:
            return self._set_by_name(call, scope)
        changes = (name in _CHANGING and id(holder) in self._held) or (name in _CHANGING_ARGUMENTS and bool(touched))
        return touched[0] if changes else ""

    def _set_by_name(self, call: ast.Call, scope: Names) -> str:
        one = self._held.get(id(unless_unreadable(value_of, call.args[0], scope)))
        name = unless_unreadable(value_of, call.args[1], scope)
        if one is None or (isinstance(name, str) and not may_read(self._names, name)):
            return ""
        return f"{one.name}.{name}" if isinstance(name, str) else one.name

    def _changed_within(self, function: FunctionType, call: ast.Call, holder: Any, scope: Names, depth: int) -> str:
        """Return what a function of the user's changes in a call.

        Args:
            function: It.
            call: The call.
            holder: What it is a method of, or lies in.
            scope: What names stand for where it is called.
            depth: How many calls lead to it.
        """
        read = (id(function.__code__), id(holder))
        definition = _definition_of(function)
        if depth > _DEEPEST or len(self._read) >= _MAX_CALLS or read in self._read or definition is None:
            return ""
        self._read.add(read)
        inner = _Scope(_bound(function, call, holder, scope), function.__globals__, _declared(definition))
        return self.changed_in(definition.body, inner, depth)

    def _sets(self, function: FunctionType) -> bool:
        """Whether a function sets an attribute or a global that loading reads; without its source, if it may."""
        if any(may_read(self._names, name) for name in stores(function.__code__)):
            return True
        return _definition_of(function) is None and bool(_CHANGING & set(function.__code__.co_names))


def _nodes(node: ast.AST, scope: Names) -> Iterator[tuple[ast.AST, Names]]:
    """Yield what a statement consists of, and what names stand for there; functions that it defines are not called."""
    yield node, scope
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        return
    if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
        elements = unless_unreadable(value_of, node.iter, scope)
        if type(elements) in (list, tuple):
            for element in elements[:_MAX_ELEMENTS]:
                inner = _Scope({**scope.f_locals, node.target.id: element}, scope.f_globals, _declared_in(scope))
                for statement in node.body:
                    yield from _nodes(statement, inner)
            return
    for child in ast.iter_child_nodes(node):
        yield from _nodes(child, scope)


def _declared_in(scope: Names) -> frozenset[str]:
    return scope.declared if isinstance(scope, _Scope) else frozenset()


def _is_global(name: str, scope: Names) -> bool:
    """Whether an assignment to a name sets a global variable."""
    return scope.f_locals is scope.f_globals or name in _declared_in(scope)


def _definition_of(function: FunctionType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    tree, code = tree_of(function.__code__.co_filename), function.__code__
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if first <= code.co_firstlineno <= node.lineno:
                return node
    return None


def _declared(definition: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    return frozenset(name for node in ast.walk(definition) if isinstance(node, ast.Global) for name in node.names)


def _bound(function: FunctionType, call: ast.Call, holder: Any, scope: Names) -> dict[str, Any]:
    """Return what is known of a function's arguments in a call, and of what it has bound."""
    code = function.__code__
    names = list(code.co_varnames[: code.co_argcount])
    is_method = holder is not None and not isinstance(holder, (ModuleType, type)) and bool(names)
    values = {names[0]: holder} if is_method else {}
    for name, one in zip(names[is_method:], call.args, strict=False):
        values[name] = unless_unreadable(value_of, one, scope)
    for keyword in call.keywords:
        if keyword.arg is not None:
            values[keyword.arg] = unless_unreadable(value_of, keyword.value, scope)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        values[name] = _contents(cell)
    return {name: value for name, value in values.items() if value is not None}


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty one
        return None


def _may_change(thing: Any) -> bool:
    return not isinstance(thing, (str, bytes, int, float, type(None), FunctionType, MethodType, torch.nn.Module))
