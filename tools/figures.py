"""Print how easy the code is to find one's way in: `python tools/figures.py [FOLDER]`.

It counts functions and modules of the package `autoaccel` in a checkout (default: this one), so that two states of the
code can be compared. It imports nothing of them.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

STRAIGHT_LINE = "session/tuning.py"
MAX_LINES = 40  # in a function's body, without its docstring

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class FunctionFigures:
    """The figures of one function."""

    place: str
    """File, line and name."""
    arguments: int
    """Parameters that a caller passes: without `self` and `cls`."""
    lines: int
    """From its first statement to its last, without its docstring."""


def functions_in(path: Path, name: str) -> Iterator[FunctionFigures]:
    """Yield the figures of every function and method of a file, nested ones included.

    Args:
        path: The file.
        name: How the file is named in their places.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, Function):
            yield FunctionFigures(f"{name}:{node.lineno} {node.name}", _arguments(node), _lines(node))


def _arguments(function: Function) -> int:
    told = function.args
    names = [one.arg for one in (*told.posonlyargs, *told.args, *told.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"])) + (told.vararg is not None) + (told.kwarg is not None)


def _lines(function: Function) -> int:
    body = function.body
    if ast.get_docstring(function) is not None:
        body = body[1:]
    if not body:
        return 0
    last = body[-1].end_lineno
    assert last is not None  # it was parsed from text
    return last - body[0].lineno + 1


def imports_of(path: Path) -> int:
    """Return how many modules a file imports at its top and in its functions."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            modules.add(node.module or ".")
    return len(modules)


def shared_class_names(package: Path) -> dict[str, list[str]]:
    """Return the names of classes, nested ones included, that more than one module of a package defines, and which."""
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        classes = (
            node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ClassDef)
        )
        for name in sorted({node.name for node in classes}):
            modules[name].append(path.relative_to(package).as_posix())
    return {name: found for name, found in sorted(modules.items()) if len(found) > 1}


def percentile(values: list[int], share: float) -> int:
    """Return the smallest value that at least this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def figures(root: Path) -> Iterator[tuple[str, str]]:
    """Yield a label and its value for each figure of a checkout."""
    package = root / "autoaccel"
    files = sorted(package.rglob("*.py"))
    functions = [one for path in files for one in functions_in(path, path.relative_to(root).as_posix())]
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in files]
    arguments = [one.arguments for one in functions]
    yield "modules", f"{len(files)}"
    yield "lines", f"{sum(lines):,}, the longest module {max(lines)}"
    yield "functions", f"{len(functions):,}"
    yield "arguments per function", f"90th percentile {percentile(arguments, 0.9)}, at most {max(arguments)}"
    yield "functions of more than four arguments", f"{sum(count > 4 for count in arguments)}"
    straight = package / STRAIGHT_LINE
    if straight.exists():
        yield f"modules that {STRAIGHT_LINE} imports", f"{imports_of(straight)}"
    long = sorted((one for one in functions if one.lines > MAX_LINES), key=lambda one: -one.lines)
    yield f"functions of more than {MAX_LINES} lines", f"{len(long)}"
    for one in long:
        yield "", f"{one.lines} lines: {one.place}"
    shared = shared_class_names(package)
    yield "class names defined in more than one module", f"{len(shared)}"
    for name, modules in shared.items():
        yield "", f"{name}: {', '.join(modules)}"


def main(arguments: list[str]) -> int:
    """Print the figures of a checkout."""
    root = Path(arguments[0]) if arguments else Path(__file__).parents[1]
    if not (root / "autoaccel").is_dir():
        print(f"{root}: must be a checkout with a folder autoaccel, and has none", file=sys.stderr)
        return 2
    for label, value in figures(root):
        print(f"{label:40} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
