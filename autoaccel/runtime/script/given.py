"""Whether a function changes what it is given in place, as its source says. Source is read, never changed."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection, Iterator
from types import FunctionType
from typing import Any

from autoaccel.runtime.held import is_users
from autoaccel.runtime.script.reading import tree_of

_CHANGING = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popleft", "remove", "reverse"}
    | {"setdefault", "sort", "update", "add_", "copy_", "div_", "fill_", "mul_", "sub_", "zero_"}
)
"""Methods of collections, arrays and tensors that change them."""

_Definition = ast.FunctionDef | ast.AsyncFunctionDef
_UNKNOWN = object()


def is_changing(method: str) -> bool:
    """Whether a method of this name changes a collection, array or tensor."""
    return method in _CHANGING


def calls_changing(function: FunctionType) -> bool:
    """Whether a function calls a method that changes a collection, array or tensor, whatever that is."""
    return bool(_CHANGING & set(function.__code__.co_names))


def changes_in_place(
    function: FunctionType, given: Collection[int], held: Collection[int], owner: Any = _UNKNOWN
) -> bool:
    """Whether a function calls a method that changes a collection or array on what it is given, or leads to that.

    A GradScaler is updated, and a loss is appended to a list, in functions that are given a dataset as well. Where the
    source cannot say what it is that is changed, it is what was given.

    Args:
        function: Of the user's own code.
        given: Positions of the parameters that are what loads samples.
        held: Ids of all that loading samples can reach.
        owner: What the first parameter is, if it is a method's and not among those that are given.
    """
    if not calls_changing(function):
        return False
    node = _definition_of(function)
    if node is None:
        return True
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    names = {parameters[place] for place in given if place < len(parameters)}
    if node.args.vararg is not None:
        names.add(node.args.vararg.arg)
    own = parameters[0] if owner is not _UNKNOWN and parameters else ""

    def leads(expression: ast.expr) -> bool:
        return any(_leads(part, function, names, held, own, owner) for part in ast.walk(expression))

    size = -1
    while size != len(names):
        size = len(names)
        for targets, value in _assignments(node):
            if leads(value):
                names |= {part.id for one in targets for part in ast.walk(one) if isinstance(part, ast.Name)} - {own}
    calls = (call.func for call in ast.walk(node) if isinstance(call, ast.Call))
    return any(
        isinstance(called, ast.Attribute) and called.attr in _CHANGING and leads(called.value) for called in calls
    )


def _leads(part: ast.AST, function: FunctionType, names: set[str], held: Collection[int], own: str, owner: Any) -> bool:
    if isinstance(part, ast.Name):
        return part.id in names or id(_outside(part.id, function)) in held
    if isinstance(part, ast.Call):  # of the user's own code, which may return what it was not given
        if isinstance(part.func, ast.Name):
            called = _outside(part.func.id, function)
            return isinstance(called, FunctionType) and is_users(called)
        return (
            isinstance(part.func, ast.Attribute) and isinstance(part.func.value, ast.Name) and part.func.value.id == own
        )
    if isinstance(part, ast.Attribute) and own:
        thing = _attribute(part, own, owner)
        return thing is not None and (thing is _UNKNOWN or id(thing) in held)
    return False


def _attribute(part: ast.expr, own: str, owner: Any) -> Any:
    """Return what is meant by attributes of a method's object; None where they are of something else."""
    if isinstance(part, ast.Name):
        return owner if part.id == own else None
    if not isinstance(part, ast.Attribute):
        return None
    holder = _attribute(part.value, own, owner)
    if holder is None or holder is _UNKNOWN:
        return holder
    found = inspect.getattr_static(holder, part.attr, _UNKNOWN)
    return _UNKNOWN if found is None or isinstance(found, property) else found


def _outside(name: str, function: FunctionType) -> Any:
    """Return the global, or the variable of a function around it, that a function means by a name."""
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        if variable == name:
            try:
                return cell.cell_contents
            except ValueError:  # an empty one
                return None
    return None if name in function.__code__.co_varnames else function.__globals__.get(name)


def _assignments(node: _Definition) -> Iterator[tuple[list[ast.expr], ast.expr]]:
    """Yield what gets a value in a function, and that value."""
    for each in ast.walk(node):
        if isinstance(each, ast.Assign):
            yield each.targets, each.value
        elif isinstance(each, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and each.value is not None:
            yield [each.target], each.value
        elif isinstance(each, (ast.For, ast.AsyncFor, ast.comprehension)):
            yield [each.target], each.iter
        elif isinstance(each, ast.withitem) and each.optional_vars is not None:
            yield [each.optional_vars], each.context_expr


def _definition_of(function: FunctionType) -> _Definition | None:
    tree = tree_of(function.__code__.co_filename)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, _Definition) and node.name == function.__code__.co_name:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if first == function.__code__.co_firstlineno:
                return node
    return None
