"""What grows in a loop, in each of its rounds or with each update. Source is read, never changed."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from types import FrameType
from typing import NamedTuple

from autoaccel.runtime.script.reading import Unreadable, value_of

Loop = ast.For | ast.While


class Counts(NamedTuple):
    """What grows in a loop on the way to a line in it: its statements by their targets, as written."""

    grows: dict[str, ast.stmt]  # in every round
    beside_update: dict[str, ast.stmt]  # under the condition of the update
    targets: frozenset[str]  # that the loop itself gives numbers to
    within: frozenset[str]  # in loops inside of it

    @property
    def growing(self) -> frozenset[str]:
        """By each round or each update."""
        return frozenset((*self.grows, *self.beside_update))

    @property
    def all(self) -> frozenset[str]:
        """Numbers of the loop's own and of those inside of it included."""
        return self.growing | self.targets | self.within


def counts_of(loop: Loop, line: int) -> Counts:
    """Return what grows in a loop on the way to a line in it."""
    grows: dict[str, ast.stmt] = {}
    beside: dict[str, ast.stmt] = {}
    within: set[str] = set()

    def visit(body: Sequence[ast.stmt], found: dict[str, ast.stmt]) -> None:
        for node in body:
            if name := grown_by(node):
                found[name] = node
            if not node.lineno <= line <= (node.end_lineno or node.lineno):
                continue
            if isinstance(node, ast.If):
                visit(node.body if line < _begin(node.orelse) else node.orelse, beside)
            elif isinstance(node, (ast.With, ast.Try)):
                visit(node.body, found)
            elif isinstance(node, (ast.For, ast.While)):
                within.update(
                    name for each in ast.walk(node) if isinstance(each, ast.stmt) and (name := grown_by(each))
                )

    visit(loop.body, grows)
    target = loop.target if isinstance(loop, ast.For) else None
    first = target.elts[0] if isinstance(target, ast.Tuple) else target
    return Counts(grows, beside, frozenset([ast.unparse(first)] if first is not None else []), frozenset(within))


def _begin(body: Sequence[ast.stmt]) -> float:
    return body[0].lineno if body else math.inf


def grown_by(node: ast.stmt) -> str:
    """Return what a statement adds something to; empty if it adds nothing."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return ast.unparse(node.target)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
        target = ast.unparse(node.targets[0])
        return target if target == ast.unparse(node.value.left) else ""
    return ""


def rise_of(node: ast.stmt, frame: FrameType) -> int:
    """Return how much a statement adds.

    Raises:
        Unreadable: If that is no number above zero that can be read.
    """
    if isinstance(node, ast.AugAssign):
        added = value_of(node.value, frame)
    else:
        assert isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp)
        added = value_of(node.value.right, frame)
    if type(added) is not int or added <= 0:
        raise Unreadable
    return added
