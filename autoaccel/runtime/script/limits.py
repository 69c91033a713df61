"""When a loop is left early: limits of counts, as in `if step >= max_steps: break`. Source is read, never changed."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

from autoaccel.runtime.script.counts import Counts, Loop, counts_of, grown_by, rise_of
from autoaccel.runtime.script.reading import Unreadable, unless_unreadable, value_of

_ENDS_OF_PROGRAMS = frozenset({"sys.exit", "exit", "quit", "os._exit"})
_CLOCKS = frozenset({"time", "perf_counter", "monotonic", "now", "process_time"})
_REVERSED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
}
"""What holds for the sides the other way round."""
_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.NotEq: ast.Eq,
}


class Limit(NamedTuple):
    """How many times a loop's inside is run until a count has come to its limit."""

    rounds: int
    words: str  # "step >= max_steps"
    line: int
    counted: str  # that which is compared; empty for a switch that is on
    is_made_first: bool  # the update comes before the comparison
    leaves: str  # "loop", "function" (by return, an error, or a flag that ends the loops around) or "program"
    counts_updates: bool  # it grows beside the update, under the same condition; else in every round


class _Exit(NamedTuple):
    """Where a loop is left."""

    test: ast.expr  # that must hold
    line: int
    leaves: str


def limits_of(loop: Loop, around: Sequence[Loop], frame: FrameType) -> list[Limit]:
    """Return the limits at which a loop is left by `break`, `return` or the end of the program.

    Conditions that no count takes part in, such as early stopping's, are none; nor is a count of patience, which begins
    anew within the loop.

    Args:
        loop: Around the line where the frame is.
        around: The loops around that one, the outermost first.
        frame: That they are in, at its first update.

    Raises:
        Unreadable: If it is left when a count, or a clock, has come to what cannot be read, or what it calls counts.
    """
    counts = counts_of(loop, frame.f_lineno)
    found: list[Limit] = []
    for end in _exits(loop, around):
        found += _limits(end.test, end, loop, counts, frame)
    return found


def rounds_while(loop: ast.While, frame: FrameType) -> int | None:
    """Return how many rounds `while step < max_steps` makes; None if its condition is another one.

    Raises:
        Unreadable: If it is of a count, and cannot be read.
    """
    test = loop.test
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Lt, ast.LtE))):
        return None
    start, most = value_of(test.left, frame), value_of(test.comparators[0], frame)
    if type(start) is not int or not isinstance(most, (int, float)):
        return None
    name = ast.unparse(test.left)
    growth = 0
    for node in ast.walk(loop):
        if isinstance(node, ast.stmt) and grown_by(node) == name:
            growth = rise_of(node, frame)
            start -= growth * (node.lineno < frame.f_lineno)
    if not growth:  # something that the loop calls counts, by steps of its own
        raise Unreadable
    rounds = (most - start) / growth
    return math.floor(rounds) + 1 if isinstance(test.ops[0], ast.LtE) else math.ceil(rounds)


def is_assigned(name: str, loops: Sequence[Loop]) -> bool:
    """Whether a loop begins a count anew."""
    nodes = (node for loop in loops for node in ast.walk(loop))
    return any(isinstance(node, ast.Assign) and name in _assigned(node) and not grown_by(node) for node in nodes)


def mentions(name: str, loop: Loop) -> bool:
    """Whether a loop is left, or goes on, under a condition on a count."""
    tests = [end.test for end in _exits(loop, ())] + ([loop.test] if isinstance(loop, ast.While) else [])
    return any(name in _names(test) for test in tests)


def _exits(loop: Loop, around: Sequence[Loop]) -> Iterator[_Exit]:
    """Yield where a loop is left, from within loops inside of it aside."""
    flags = {name for outer in around if isinstance(outer, ast.While) for name in _names(outer.test)}

    def visit(body: Sequence[ast.stmt], tests: tuple[ast.expr, ...]) -> Iterator[_Exit]:
        for node in body:
            if isinstance(node, ast.If):
                yield from visit(node.body, (*tests, node.test))
                yield from visit(node.orelse, (*tests, ast.UnaryOp(ast.Not(), node.test)))
            elif isinstance(node, (ast.With, ast.Try)):
                yield from visit(node.body, tests)
            elif tests and (leaves := _left_by(node)):
                sets_flag = leaves == "loop" and any(_assigned(each) & flags for each in body)
                test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), list(tests))
                yield _Exit(test, node.lineno, "function" if sets_flag else leaves)

    yield from visit(loop.body, ())


def _left_by(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return "program" if ast.unparse(node.value.func) in _ENDS_OF_PROGRAMS else ""
    if isinstance(node, ast.Break):
        return "loop"
    return "function" if isinstance(node, (ast.Return, ast.Raise)) else ""


def _limits(test: ast.expr, end: _Exit, loop: Loop, counts: Counts, frame: FrameType) -> list[Limit]:
    """Return the limits each of which makes a condition true."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return [limit for part in test.values for limit in _limits(part, end, loop, counts, frame)]
    parts = list(_conjuncts(test))
    if any(_counts_elsewhere(part, loop, counts, frame) for part in parts):
        raise Unreadable
    counted = [part for part in parts if _is_counted(part, counts)]
    changed = {name for node in ast.walk(loop) for name in _assigned(node)}.difference(counts.all)
    anew = {name for name in counts.all if is_assigned(name, [loop])}  # `bad = 0` where the metric is better
    if any(_names(part) & (changed | anew) for part in counted):  # `epoch - best_epoch > patience`
        return []
    limits = {ast.unparse(side) for part in counted if isinstance(part, ast.Compare) for side in _sides(part)}
    # Early stopping is not planned, and what is switched off never happens.
    if not all(part in counted or _is_given(part, limits, loop, frame) for part in parts):
        return []
    # In `if is_update: ...; if step >= most: break` the first condition is the update's own.
    beside = [part for part in counted if _names(part) & counts.beside_update.keys()]
    if len(beside) == 1:
        counted = beside
    if len(counted) > 1:
        raise Unreadable
    if not counted:  # `if args.dry_run: break`
        is_first = frame.f_lineno < end.line
        return [Limit(1, ast.unparse(test), end.line, "", is_first, end.leaves, False)]
    return _limit(counted[0], end, counts, frame)


def _conjuncts(test: ast.expr) -> Iterator[ast.expr]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for part in test.values:
            yield from _conjuncts(part)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and isinstance(test.operand, ast.Compare):
        turned = _NEGATED.get(type(test.operand.ops[0])) if len(test.operand.ops) == 1 else None
        yield ast.Compare(test.operand.left, [turned()], test.operand.comparators) if turned else test
    else:
        yield test


def _sides(test: ast.Compare) -> list[ast.expr]:
    return [test.left, *test.comparators]


def _counts_elsewhere(test: ast.expr, loop: Loop, counts: Counts, frame: FrameType) -> bool:
    """Whether a condition compares whole numbers of which one grows, but not by a statement of the loop.

    Such as `len(losses) >= most`, or an attribute that a method adds to. What is called patience stops early.
    """
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or "patience" in ast.unparse(test).lower():
        return False
    if any(isinstance(node, ast.NamedExpr) for node in ast.walk(test)):
        return True
    if not isinstance(test.ops[0], (ast.Gt, ast.GtE, ast.Eq)) or _is_counted(test, counts):
        return False
    if any(isinstance(side, ast.Constant) and side.value in (0, 1) for side in _sides(test)):
        return False  # `args.max_steps > 0` is a guard
    assigned = {name for node in ast.walk(loop) for name in _assigned(node)}
    sides = [unless_unreadable(value_of, side, frame) for side in _sides(test)]
    grows = any(
        isinstance(node, ast.Call) or (isinstance(node, ast.Attribute) and ast.unparse(node) not in assigned)
        for side in _sides(test)
        for node in ast.walk(side)
    )
    return grows and all(type(side) is int for side in sides) and not _names(test) & assigned


def _is_counted(test: ast.expr, counts: Counts) -> bool:
    """Whether a condition depends on how far a loop has come, in rounds or by the clock."""
    for node in ast.walk(test):
        if isinstance(node, ast.expr) and ast.unparse(node) in counts.all:
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _CLOCKS:
            return True
    return False


def _limit(test: ast.expr, end: _Exit, counts: Counts, frame: FrameType) -> list[Limit]:
    """Return the limit of a comparison of a count; none where what is compared is no count.

    Raises:
        Unreadable: If it cannot be read.
    """
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        raise Unreadable
    left, right, kind = test.left, test.comparators[0], type(test.ops[0])
    if _plain(left) not in counts.all:
        left, right, kind = right, left, _REVERSED.get(kind, kind)
    name = _plain(left)
    count, most = value_of(left, frame), value_of(right, frame)
    if type(count) is not int or not isinstance(most, (int, float)):
        if isinstance(count, int) or name in counts.targets:
            raise Unreadable
        return []  # a sum of losses, say
    if math.isinf(most):
        return []
    grown = counts.beside_update.get(name) or counts.grows.get(name)
    if kind not in (ast.Gt, ast.GtE, ast.Eq) or (grown is None and name not in counts.targets):
        raise Unreadable
    is_first, growth = frame.f_lineno < end.line, 1
    if grown is not None:
        growth = rise_of(grown, frame)
        # What the count is where it is compared for the first time.
        count += growth * ((grown.lineno < end.line) - (grown.lineno < frame.f_lineno))
    if kind is ast.Eq and count > most:
        return []
    past = math.floor(most) + 1 if kind is ast.Gt else most
    rounds = max(0, math.ceil((past - count) / growth)) + is_first
    beside = name in counts.beside_update
    return [Limit(max(1, rounds), ast.unparse(test), end.line, name, is_first, end.leaves, beside)]


def _plain(expression: ast.expr) -> str:
    """Return the name in `step`, `step + 1` or `step - 1`."""
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, (ast.Add, ast.Sub)):
        return ast.unparse(expression.left) if isinstance(expression.right, ast.Constant) else ""
    return ast.unparse(expression)


def _is_given(test: ast.expr, limits: set[str], loop: Loop, frame: FrameType) -> bool | None:
    """Whether a condition holds throughout: a limit is given, a switch is on. None if that cannot be known.

    Raises:
        Unreadable: If it is about a limit, and cannot be read.
    """
    negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    plain = test.operand if isinstance(test, ast.UnaryOp) and negated else test
    if any(_assigned(node) & _names(plain) for node in ast.walk(loop)):
        return None
    if isinstance(plain, ast.Compare):
        sides = _sides(plain)
        if len(sides) != 2 or not isinstance(sides[1], ast.Constant) or ast.unparse(sides[0]) not in limits:
            return None
        holds = _compare(value_of(sides[0], frame), plain.ops[0], sides[1].value)
    elif isinstance(plain, (ast.Name, ast.Attribute, ast.Subscript)):
        try:
            value = value_of(plain, frame)
        except Unreadable:
            if ast.unparse(plain) in limits:
                raise
            return None
        if value is not None and not isinstance(value, (bool, int, float, str)):
            return None
        holds = bool(value)
    else:
        return None
    return holds != negated


def _compare(value: Any, how: ast.cmpop, other: Any) -> bool:
    if isinstance(how, ast.Is):
        return value is other
    if isinstance(how, ast.IsNot):
        return value is not other
    if isinstance(how, ast.NotEq):
        return bool(value != other)
    if isinstance(how, ast.Eq):
        return bool(value == other)
    if not isinstance(value, (int, float)):
        raise Unreadable
    if isinstance(how, ast.Gt):
        return bool(value > other)
    if isinstance(how, ast.GtE):
        return bool(value >= other)
    raise Unreadable


def _names(expression: ast.expr) -> set[str]:
    return {ast.unparse(node) for node in ast.walk(expression) if isinstance(node, (ast.Name, ast.Attribute))}


def _assigned(node: ast.AST) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    return {
        ast.unparse(each) for target in targets for each in (target.elts if isinstance(target, ast.Tuple) else [target])
    }
