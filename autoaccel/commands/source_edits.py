"""Edits of a Python file at the places where something was seen: text in, text out; nothing is run or written."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

_POSITIONS = {"num_workers": 5, "multiprocessing_context": 11}
"""Of arguments in DataLoader(...), for those who give them without their names."""


class Edit(NamedTuple):
    """Text that takes the place of some bytes of a file."""

    start: int
    end: int
    text: str


class Source:
    """A Python file and its syntax tree."""

    def __init__(self, text: str) -> None:
        """Read it.

        Raises:
            SyntaxError: If it is no Python.
        """
        self.data = text.encode()
        self.tree = ast.parse(self.data)
        self._starts = [0]
        for line in self.data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def start_of(self, node: ast.expr | ast.stmt) -> int:
        """Return where a node begins, in bytes."""
        return self._starts[node.lineno - 1] + node.col_offset

    def end_of(self, node: ast.expr | ast.stmt) -> int:
        """Return where a node ends, in bytes."""
        assert node.end_lineno is not None and node.end_col_offset is not None  # parsed ones have both
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def lines_of(self, node: ast.stmt) -> tuple[int, int]:
        """Return where the lines of a statement begin and end, in bytes."""
        assert node.end_lineno is not None
        return self._starts[node.lineno - 1], self._starts[node.end_lineno]

    def edited(self, edits: Iterable[Edit]) -> str | None:
        """Return the text with these edits; None if that is no Python any more."""
        data, before = self.data, len(self.data)
        # From the end on; of several at one place the last first, so that they stand in their order.
        for edit in reversed(sorted(edits, key=lambda edit: edit.start)):  # noqa: C413  # reverse=True keeps their order
            if edit.end > before:
                return None  # two change the same
            before = edit.start
            data = data[: edit.start] + edit.text.encode() + data[edit.end :]
        try:
            ast.parse(data)
        except SyntaxError:
            return None
        return data.decode()


def keyword_edit(source: Source, line: int, kind: str, code: str) -> Edit | None:
    """Return the edit that gives a call an argument; None if there is no such call.

    Args:
        source: The file.
        line: Of the call.
        kind: The last name of what is called, such as `DataLoader`.
        code: The argument, such as `num_workers=2`.
    """
    calls = (node for node in _at(source.tree, line) if isinstance(node, ast.Call))
    call = next((call for call in calls if ast.unparse(call.func).rpartition(".")[2] == kind), None)
    if call is None:
        return None
    name, _, value = code.partition("=")
    position = _POSITIONS.get(name, len(call.args)) if kind == "DataLoader" else len(call.args)
    given = [keyword.value for keyword in call.keywords if keyword.arg == name] or call.args[position : position + 1]
    if given:
        return Edit(source.start_of(given[0]), source.end_of(given[0]), value)
    parts = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not parts:
        return Edit(source.end_of(call) - 1, source.end_of(call) - 1, code)
    end = max(map(source.end_of, parts))
    return Edit(end, end, f", {code}")


def model_name(source: Source, line: int, kind: str, held_as: Collection[str] | None) -> str:
    """Return what the statement at a line assigns a model to, such as `self.model`; empty if that is not one thing.

    Empty, too, if it may be something that only holds the model, such as a trainer.

    Args:
        source: The file.
        line: Where the model was constructed.
        kind: Its class.
        held_as: What was seen to hold it there; None: that was not seen.
    """
    statement = _assignment(source, line)
    if statement is None:
        return ""
    name, made_by = ast.unparse(statement.targets[0]), _made_by(statement.value)
    if made_by != kind and held_as is not None:
        return name if name in held_as else ""
    # An object of another class holds the model; what a function returns mostly is it.
    return "" if made_by != kind and made_by[:1].isupper() else name


def _made_by(value: ast.expr) -> str:
    """Return the last name of what is called to make a value, but for calls that return what they are called of."""
    if not isinstance(value, ast.Call):
        return ""
    if isinstance(value.func, ast.Attribute) and value.func.attr in _RETURN_SELF:
        return _made_by(value.func.value)
    return ast.unparse(value.func).rpartition(".")[2]


_RETURN_SELF = frozenset(
    ("to", "cuda", "cpu", "train", "eval", "float", "double", "half", "bfloat16", "requires_grad_", "apply")
)
"""Methods of a module that return it."""


def line_after_edit(source: Source, line: int, code: str) -> Edit | None:
    """Return the edit that puts a line after the assignment at a line; None if there is none."""
    statement = _assignment(source, line)
    return _after(source, statement, code) if statement is not None else None


def first_line_edit(source: Source, code: str) -> Edit:
    """Return the edit that puts a line after the imports of a file."""
    imports = [node for node in source.tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    return _after(source, imports[-1], code) if imports else Edit(0, 0, f"{code}\n")


def wrapping_edits(source: Source, names: Sequence[str], code: str) -> list[Edit]:
    """Return the edits that put each statement of a training loop that calls one of these into a `with` block.

    A training loop is what calls backward(); what it does without gradients stays.

    Args:
        source: The file.
        names: Of models.
        code: What is entered.
    """
    return [
        _wrapped(source, statement, code)
        for scope in ast.walk(source.tree)
        if isinstance(scope, (ast.Module, ast.FunctionDef)) and _calls(scope.body, _is_backward)
        for statement in _simple_statements(scope.body)
        if _calls([statement], lambda name: name in names)
    ]


def _at(tree: ast.AST, line: int) -> Iterator[ast.AST]:
    """Yield the nodes whose lines include this one, the outermost first."""
    for node in ast.walk(tree):
        first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        if first is not None and last is not None and first <= line <= last:
            yield node


def _assignment(source: Source, line: int) -> ast.Assign | None:
    found = [node for node in _at(source.tree, line) if isinstance(node, ast.Assign)]
    named = [node for node in found if isinstance(node.targets[0], (ast.Name, ast.Attribute))]
    return named[-1] if named and len(named[-1].targets) == 1 else None


def _after(source: Source, statement: ast.stmt, code: str) -> Edit:
    end = source.lines_of(statement)[1]
    lacks_end = not source.data[:end].endswith(b"\n")
    return Edit(end, end, f"{chr(10) if lacks_end else ''}{' ' * statement.col_offset}{code}\n")


def _wrapped(source: Source, statement: ast.stmt, code: str) -> Edit:
    start, end = source.lines_of(statement)
    indent = " " * statement.col_offset
    inside = "".join(f"    {line.decode()}" for line in source.data[start:end].splitlines(keepends=True))
    return Edit(start, end, f"{indent}with {code}:\n{inside}")


def _simple_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a scope that hold no others, without those of other scopes and of no_grad blocks."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if isinstance(statement, ast.With) and any("no_grad" in ast.unparse(item) for item in statement.items):
            continue
        parts = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        if any(parts):
            for part in parts:
                yield from _simple_statements(part)
        else:
            yield statement


def _is_backward(name: str) -> bool:
    return name.endswith(".backward")


def _calls(body: Sequence[ast.stmt], is_meant: Callable[[str], bool]) -> bool:
    """Whether some of these statements call a function of a name that is meant, in this scope."""
    return any(
        isinstance(node, ast.Call) and is_meant(ast.unparse(node.func))
        for statement in body
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        for node in ast.walk(statement)
    )
