"""Read what source says of a frame that is running: its loops, and expressions of names and numbers. Nothing is run."""

from __future__ import annotations

import ast
import functools
import inspect
import math
import operator
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Protocol

import numpy
import torch

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": len,
    "int": int,
    "max": max,
    "min": min,
    "range": range,
    "math.ceil": math.ceil,
}


class Names(Protocol):
    """What names stand for: a frame, or something like one."""

    @property
    def f_locals(self) -> Mapping[str, Any]: ...

    @property
    def f_globals(self) -> Mapping[str, Any]: ...


class NamesGiven(NamedTuple):
    """Names without a frame: those of a function that is not called, or of a round of a loop that is not made."""

    f_locals: Mapping[str, Any]
    f_globals: Mapping[str, Any]


class Unreadable(Exception):  # noqa: N818  # it never leaves this file
    """An expression is more than names and numbers."""


@functools.cache
def tree_of(file: str) -> ast.Module | None:
    """Return the syntax tree of a file; None if it is not to be had."""
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def loops_at(tree: ast.Module, frame: FrameType) -> list[ast.For | ast.While]:
    """Return the loops of the frame's own function around its line, the outermost first."""
    loops: list[ast.For | ast.While] = []

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            first, last = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
            if first is not None and last is not None and not first <= frame.f_lineno <= last:
                continue
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                loops.clear()  # those outside are of whoever calls it
            if isinstance(child, (ast.For, ast.While)):
                loops.append(child)
            visit(child)

    visit(tree)
    return loops


def unless_unreadable(read: Callable[[Any, Any], Any], expression: ast.AST, frame: Names) -> Any:
    """Return what a function that may raise `Unreadable` reads; None if it does."""
    try:
        return read(expression, frame)
    except (Unreadable, TypeError, ValueError, ZeroDivisionError, OverflowError, AttributeError):
        return None


def value_of(expression: ast.expr, frame: Names) -> Any:
    """Return what an expression of names, attributes and numbers is now; no code of the user's runs for it.

    Raises:
        Unreadable: If it is more than that.
    """
    if isinstance(expression, ast.Constant):
        return expression.value
    if isinstance(expression, ast.Name):
        for names in (frame.f_locals, frame.f_globals):
            if expression.id in names:
                return names[expression.id]
    elif isinstance(expression, ast.Attribute):
        holder = value_of(expression.value, frame)
        if expression.attr == "shape" and isinstance(holder, (torch.Tensor, numpy.ndarray)):
            return holder.shape
        found = inspect.getattr_static(holder, expression.attr, None)  # which calls no property
        if found is not None:
            return found
    elif isinstance(expression, ast.Subscript):
        holder = value_of(expression.value, frame)
        if type(holder) in (dict, list, tuple, torch.Size):
            try:
                return holder[value_of(expression.slice, frame)]
            except (KeyError, IndexError) as error:
                raise Unreadable from error
    elif isinstance(expression, ast.BinOp) and (operation := _OPERATORS.get(type(expression.op))):
        return operation(value_of(expression.left, frame), value_of(expression.right, frame))
    elif isinstance(expression, ast.Call) and (function := _FUNCTIONS.get(ast.unparse(expression.func))):
        return function(*(value_of(each, frame) for each in expression.args))
    elif isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
        holder, arguments = value_of(expression.func.value, frame), [value_of(each, frame) for each in expression.args]
        if isinstance(holder, torch.Tensor) and expression.func.attr in ("size", "numel"):
            return getattr(holder, expression.func.attr)(*arguments)
    raise Unreadable
