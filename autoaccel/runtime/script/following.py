"""Whether another training follows the one that a script is in, as its source says. Source is read, never changed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from autoaccel.runtime.script.reading import tree_of

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def where_another_follows(frames: Sequence[FrameType]) -> str:
    """Return where another training is begun after the loops that an update is in; empty if nowhere.

    It is where what leads to the update is called once more, or where gradients are computed and a step is made.

    Args:
        frames: Of the user's own code, the innermost first.
    """
    callee = ""
    for frame in frames:
        tree = tree_of(frame.f_code.co_filename)
        if tree is not None:
            trains = {node.name for node in ast.walk(tree) if isinstance(node, _Function) and _makes_steps(node)}
            trains |= {callee} - {""}
            for node in _later(_body_of(tree, frame), frame.f_lineno):
                if line := _line_of_training(node, trains):
                    return f"{Path(frame.f_code.co_filename).name}:{line}"
        callee = frame.f_code.co_name
    return ""


def _body_of(tree: ast.Module, frame: FrameType) -> list[ast.stmt]:
    """Return the body of the function that a frame is in, or that of the file."""
    found = tree.body
    for node in ast.walk(tree):
        if isinstance(node, _Function) and node.name == frame.f_code.co_name and _is_at(node, frame.f_lineno):
            found = node.body
    return found


def _is_at(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _later(body: Sequence[ast.stmt], line: int) -> Iterator[ast.stmt]:
    """Yield the statements that are run after that at a line, and after the loops that it is in."""
    for node in body:
        if node.lineno > line:
            yield node
        elif _is_at(node, line):
            if isinstance(node, ast.If):
                in_body = node.body[0].lineno <= line <= (node.body[-1].end_lineno or line)
                yield from _later(node.body if in_body else node.orelse, line)
            elif isinstance(node, (ast.With, ast.Try)):
                yield from _later(node.body, line)


def _line_of_training(node: ast.stmt, trains: set[str]) -> int | None:
    """Return the line of a statement at which it trains."""
    if isinstance(node, (_Function, ast.ClassDef)):
        return None  # it is only defined
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
    found = [each.lineno for each in calls if _name(each) in trains]
    if not found and _makes_steps(node):
        found = [node.lineno]
    return min(found, default=None)


def _makes_steps(node: ast.AST) -> bool:
    methods = {
        _name(each) for each in ast.walk(node) if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
    }
    return {"backward", "step"} <= methods


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]
