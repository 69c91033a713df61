"""How long a script plans to train, read from the loops around its updates. Source is read, never changed."""

from __future__ import annotations

import ast
import functools
import inspect
import math
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy
import torch
from torch.utils.data import DataLoader

from autoaccel.runtime.script.numbering import length_of
from autoaccel.runtime.script.places import place_of

_ASSUMED_EPOCHS = 10  # where the planned length cannot be read,
_ASSUMED_STEPS = 1000  # nor how long an epoch is
_MAX_ASSUMED_SECONDS = 24 * 3600.0  # samplers that are not meant to end say that an epoch has 10**10 samples

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}
_SAME_LENGTH = frozenset({"enumerate", "tqdm", "track", "progress_bar", "iter", "reversed", "list"})
"""Functions that give as many elements as their first argument has."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": len,
    "int": int,
    "max": max,
    "min": min,
    "range": range,
    "math.ceil": math.ceil,
}


class EnclosingLoop(NamedTuple):
    """A loop around an update."""

    words: str  # "range(epochs) in train.py:48"
    rounds: int | None  # None: that cannot be read
    makes_loader: bool = False  # it is over a DataLoader that is made in the same line


class Unreadable(Exception):  # noqa: N818  # it never leaves this file
    """An expression is more than names and numbers."""


def loops_around(frames: Sequence[FrameType]) -> list[EnclosingLoop]:
    """Return the loops that the program is in, the innermost first.

    Args:
        frames: Of the user's own code, the innermost first.
    """
    found: list[EnclosingLoop] = []
    for frame in frames:
        tree = _tree(frame.f_code.co_filename)
        inside = _that_count(_loops_at(tree, frame)) if tree is not None else []
        found += [_read(loop, frame) for loop in reversed(inside)]
    return found


def planned_rounds(loops: Sequence[EnclosingLoop]) -> int | None:
    """Return how many times the inside of all these loops is run; None if that cannot be read, or there are none."""
    rounds = [loop.rounds for loop in loops]
    known = [each for each in rounds if each is not None]
    return math.prod(known) if rounds and len(known) == len(rounds) else None


def assumed_steps(steps_per_epoch: int | None, step_seconds: float) -> int:
    """Return how many steps a training is taken to plan that does not say it: ten epochs, a day at most.

    Args:
        steps_per_epoch: None: that is not known either.
        step_seconds: Of a step, as it was seen; above zero.
    """
    steps = _ASSUMED_STEPS if steps_per_epoch is None else steps_per_epoch * _ASSUMED_EPOCHS
    return max(1, min(steps, int(_MAX_ASSUMED_SECONDS / step_seconds)))


@functools.cache
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _loops_at(tree: ast.Module, frame: FrameType) -> list[ast.For | ast.While]:
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


def _that_count(loops: list[ast.For | ast.While]) -> list[ast.For | ast.While]:
    """Return the loops without those within one that limits the number of their rounds: `while step < max_steps`."""
    for place, loop in enumerate(loops):
        if isinstance(loop, ast.While) and isinstance(loop.test, ast.Compare):
            count = ast.unparse(loop.test.left)
            if any(count in _counts(inner) for inner in loops[place + 1 :]):
                return loops[: place + 1]
    return loops


def _counts(loop: ast.For | ast.While) -> set[str]:
    """Return what each round of a loop counts."""
    return {ast.unparse(each.target) for each in loop.body if isinstance(each, ast.AugAssign)}


def _read(loop: ast.For | ast.While, frame: FrameType) -> EnclosingLoop:
    expression = loop.iter if isinstance(loop, ast.For) else loop.test
    file = place_of(frame).partition(":")[0]
    words = f"{ast.unparse(expression)} in {file}:{loop.lineno}"
    if _is_for_one_value(loop, frame.f_lineno):
        rounds: int | None = 1
    else:
        rounds = _unless_unreadable(_rounds if isinstance(loop, ast.For) else _rounds_while, expression, frame)
    for end in _conditions_of_breaks(loop):
        limit = _unless_unreadable(_limit, end, frame)
        if limit is not None and (rounds is None or limit < rounds):
            words, rounds = f"{ast.unparse(end)} in {file}:{end.lineno}", limit
    return EnclosingLoop(words, rounds, rounds is None and _makes_loader(expression, frame))


def _is_for_one_value(loop: ast.For | ast.While, line: int) -> bool:
    """Whether a line within a loop is run for one of its values: `if phase == "train"` in `for phase in phases`."""
    return isinstance(loop, ast.For) and any(
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Compare)
        and isinstance(node.test.ops[0], ast.Eq)
        and ast.unparse(node.test.left) == ast.unparse(loop.target)
        and isinstance(node.test.comparators[0], ast.Constant)
        and node.body[0].lineno <= line <= (node.body[-1].end_lineno or line)
        for node in ast.walk(loop)
    )


def _makes_loader(expression: ast.expr, frame: FrameType) -> bool:
    while isinstance(expression, ast.Call):
        kind = _unless_unreadable(_value, expression.func, frame)
        if isinstance(kind, type) and issubclass(kind, DataLoader):
            return True
        expression = expression.args[0] if expression.args else expression.func
    return False


def _unless_unreadable(read: Callable[[Any, FrameType], Any], expression: ast.expr, frame: FrameType) -> Any:
    try:
        return read(expression, frame)
    except (Unreadable, TypeError, ValueError, ZeroDivisionError, OverflowError, AttributeError):
        return None


def _conditions_of_breaks(loop: ast.For | ast.While) -> list[ast.Compare]:
    """Return the conditions on the number of rounds under which a loop is left, as in `if step >= max_steps: break`."""
    counts = _counts(loop)
    if isinstance(loop, ast.For):
        targets = loop.target.elts[:1] if isinstance(loop.target, ast.Tuple) else [loop.target]
        counts |= {ast.unparse(each) for each in targets}
    return [
        test
        for node in loop.body
        if isinstance(node, ast.If) and any(isinstance(each, ast.Break) for each in node.body)
        # Not the epochs without progress after which a training is stopped early: not every round counts those.
        for test in _that_suffice(node.test)
        if ast.unparse(test.left) in counts
    ]


def _that_suffice(test: ast.expr) -> list[ast.Compare]:
    """Return the comparisons each of which alone makes a condition true.

    One beside `limit is not None` is among them, if it is compared with that limit: without one it cannot be read.
    """
    if isinstance(test, ast.Compare):
        return [test]
    if not isinstance(test, ast.BoolOp):
        return []
    parts = test.values
    if isinstance(test.op, ast.And):
        limits = {ast.unparse(part.comparators[0]) for part in parts if isinstance(part, ast.Compare)}
        parts = [part for part in parts if not _is_given(part, limits)]
        if len(parts) > 1:
            return []
    return [found for part in parts for found in _that_suffice(part)]


def _is_given(test: ast.expr, limits: set[str]) -> bool:
    """Whether a condition is that one of these limits is not None."""
    return any(ast.unparse(test) == f"{limit} is not None" for limit in limits)


def _limit(test: ast.Compare, frame: FrameType) -> int | None:
    """Return the number at which a count ends a loop.

    Raises:
        Unreadable: If the condition is another one.
    """
    if len(test.ops) != 1 or not isinstance(test.ops[0], (ast.Gt, ast.GtE, ast.Eq)):
        raise Unreadable
    count, limit = _value(test.left, frame), _value(test.comparators[0], frame)
    is_count = type(count) is int and isinstance(limit, (int, float)) and count < limit
    return math.ceil(limit) if is_count else None


def _rounds(expression: ast.expr, frame: FrameType) -> int | None:
    """Return how many elements an expression has that is iterated over, be it wrapped in enumerate() or a progress bar.

    Raises:
        Unreadable: If that takes more than names and numbers.
    """
    if isinstance(expression, (ast.List, ast.Tuple)) and not any(
        isinstance(one, ast.Starred) for one in expression.elts
    ):
        return len(expression.elts)
    if not isinstance(expression, ast.Call):
        return length_of(_value(expression, frame))
    name = ast.unparse(expression.func).rpartition(".")[2]
    if name in ("range", "trange"):
        return len(range(*(int(_value(each, frame)) for each in expression.args)))
    if name == "zip":
        found = [_unless_unreadable(_rounds, each, frame) for each in expression.args]
        return min((each for each in found if each is not None), default=None)
    if name == "islice" and len(expression.args) == 2:
        return int(_value(expression.args[1], frame))
    if name not in _SAME_LENGTH or not expression.args:
        raise Unreadable
    return _rounds(expression.args[0], frame)


def _rounds_while(test: ast.expr, frame: FrameType) -> int | None:
    """Return the limit of a count, as in `while step < max_steps`."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Lt, ast.LtE)):
        count, limit = _value(test.left, frame), _value(test.comparators[0], frame)
        if isinstance(count, int) and isinstance(limit, (int, float)):
            return math.ceil(limit)
    return None


def _value(expression: ast.expr, frame: FrameType) -> Any:
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
        holder = _value(expression.value, frame)
        if expression.attr == "shape" and isinstance(holder, (torch.Tensor, numpy.ndarray)):
            return holder.shape
        found = inspect.getattr_static(holder, expression.attr, None)  # which calls no property
        if found is not None:
            return found
    elif isinstance(expression, ast.Subscript):
        holder = _value(expression.value, frame)
        if type(holder) in (dict, list, tuple, torch.Size):
            try:
                return holder[_value(expression.slice, frame)]
            except (KeyError, IndexError) as error:
                raise Unreadable from error
    elif isinstance(expression, ast.BinOp) and (operation := _OPERATORS.get(type(expression.op))):
        return operation(_value(expression.left, frame), _value(expression.right, frame))
    elif isinstance(expression, ast.Call) and (function := _FUNCTIONS.get(ast.unparse(expression.func))):
        return function(*(_value(each, frame) for each in expression.args))
    elif isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
        holder, arguments = _value(expression.func.value, frame), [_value(each, frame) for each in expression.args]
        if isinstance(holder, torch.Tensor) and expression.func.attr in ("size", "numel"):
            return getattr(holder, expression.func.attr)(*arguments)
    raise Unreadable
