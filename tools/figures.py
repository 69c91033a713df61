"""Print how easy the code is to find one's way in: `python tools/figures.py [FOLDER]`.

It counts what the package `autoaccel` consists of in a checkout (default: this one), and how many of its own names a
reader meets on the way down from `tune()`, so that two states of the code can be compared. It imports nothing of them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

STRAIGHT_LINE = "session/tuning.py"
MAX_LINES = 40  # in a function's body, without its docstring
WAY_DOWN = ("session/", "proof/", "runs/")  # rooms through which a reader of `tune()` walks down to the bench
PORT = ("records/seen.py", "workers/processes.py")  # where a user's training is told to be a script or not
SERVES_SCRIPTS = "runtime/script"  # where it is known to be one
STARTS_RANKS = ("workers", "export", "runtime/ranks.py", "runtime/script")

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


def constants_in(tree: ast.Module) -> int:
    """Return how many names in capitals a module gives a value to."""
    targets = [target for node in tree.body for target in _targets(node)]
    return sum(name.isupper() for target in targets for name in _names(target))


def _targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign) else []


def asks_for_script(tree: ast.Module) -> int:
    """Return how often a module asks whether a training is a script."""
    return sum(_asks_for_script(node) for node in ast.walk(tree))


def _asks_for_script(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
        return any(name == "Script" for name in _names(node.args[1]))
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        return _last(node.left) == "script"
    if isinstance(node, ast.BoolOp):
        return any(map(_is_script, node.values))
    return isinstance(node, (ast.If, ast.IfExp, ast.While)) and _is_script(node.test)


def _is_script(node: ast.AST) -> bool:
    """Return whether the truth of this is that of a script that is there."""
    return _last(node) in ("script", "is_script")


def _last(node: ast.AST | None) -> str:
    """Return the last part of a dotted name, through a `not`; empty for anything else."""
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _names(node: ast.AST) -> set[str]:
    """Return all names and attributes that stand in a piece of code."""
    found = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return found | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


def names_ranks(tree: ast.Module) -> bool:
    """Return whether a module has a name, an attribute or an argument with the word rank in it."""
    names = _names(tree) | {one.arg for one in ast.walk(tree) if isinstance(one, (ast.arg, ast.keyword)) and one.arg}
    names |= {one.name for one in ast.walk(tree) if isinstance(one, (Function, ast.ClassDef))}
    return any(re.search(r"(?:^|_)(?i:ranks?)(?:_|$)|Ranks?(?![a-z])", name) for name in names)


def held_in_turn(trees: Mapping[str, ast.Module]) -> list[tuple[str, str]]:
    """Return each two classes of which either holds the other, by the annotations of what they are made of."""
    classes = {node.name: node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    holds = {name: _annotated(node) & classes.keys() - {name} for name, node in classes.items()}
    return sorted((one, other) for one in holds for other in holds[one] if one < other and one in holds[other])


def _annotated(node: ast.ClassDef) -> set[str]:
    """Return the names in annotations of a class's attributes and of the arguments that it is made with."""
    found = [one.annotation for one in node.body if isinstance(one, ast.AnnAssign)]
    for one in node.body:
        if isinstance(one, Function) and one.name == "__init__":
            found += [argument.annotation for argument in (*one.args.args, *one.args.kwonlyargs) if argument.annotation]
    return {name for annotation in found for name in _names(annotation)}


class Word(NamedTuple):
    """A class or a function at the top of a module."""

    module: str
    """Its path in the package."""
    name: str


def words_below_tune(trees: Mapping[str, ast.Module]) -> dict[Word, ast.ClassDef | Function]:
    """Return the own classes and functions that are named on the way from `tune()` down to the bench, as they stand.

    Followed are names of functions and of classes (into all of their methods), as long as they are of code in
    the rooms above the bench. Methods and attributes are no words: they are read as parts of what they belong to.

    Args:
        trees: Path in the package -> module.
    """
    nodes = {
        Word(path, node.name): node
        for path, tree in trees.items()
        for node in tree.body
        if isinstance(node, (Function, ast.ClassDef))
    }
    imported = {word: source for path, tree in trees.items() for word, source in _imported(path, tree, trees)}
    words: set[Word] = set()
    to_read = [word for word in nodes if word.name == "tune" and word.module.startswith(WAY_DOWN)]
    seen = set(to_read)
    while to_read:
        word = to_read.pop()
        met = {Word(word.module, name) for function in _read(nodes[word]) for name in _named(function)}
        while through := met & imported.keys():  # what a package imports from one of its modules is that module's
            met = met - through | {imported[one] for one in through}
        met &= nodes.keys()
        words |= met
        to_read += [one for one in met if one.module.startswith(WAY_DOWN) and one not in seen]
        seen |= met
    return {word: node for word, node in nodes.items() if word in words}


def _imported(path: str, tree: ast.Module, trees: Mapping[str, ast.Module]) -> Iterator[tuple[Word, Word]]:
    """Yield what a module calls each of our own names that it imports, and what that is where it comes from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("autoaccel."):
            inner = (node.module or "").partition(".")[2].replace(".", "/")
            source = f"{inner}.py" if f"{inner}.py" in trees else f"{inner}/__init__.py"
            yield from ((Word(path, one.asname or one.name), Word(source, one.name)) for one in node.names)


def _named(function: Function) -> set[str]:
    """Return the names that a function's body reads, without its own variables, which may be called like anything."""
    names = [one for statement in function.body for one in ast.walk(statement) if isinstance(one, ast.Name)]
    own = {one.id for one in names if isinstance(one.ctx, ast.Store)}
    own |= {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
    return {one.id for one in names} - own


def _read(node: ast.ClassDef | Function) -> list[Function]:
    """Return the functions whose bodies are read where this one, or a class, is called."""
    return [one for one in node.body if isinstance(one, Function)] if isinstance(node, ast.ClassDef) else [node]


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
    trees = {path.relative_to(package).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in files}
    yield "modules", f"{len(files)}"
    yield "lines", f"{sum(lines):,}, the longest module {max(lines)}"
    yield "functions", f"{len(functions):,}"
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    yield "classes", f"{len(classes)}"
    yield "constants of modules", f"{sum(map(constants_in, trees.values()))}"
    rooms = [path.partition("/")[0] for path in trees if "/" in path and not path.endswith("__init__.py")]
    yield (
        "modules of session/, proof/, bench/, runs/",
        ", ".join(str(rooms.count(room)) for room in ("session", "proof", "bench", "runs")),
    )
    yield "names of ours from tune() downwards", f"{len(words_below_tune(trees))}"
    asking = {path: asks_for_script(tree) for path, tree in trees.items() if not path.startswith(SERVES_SCRIPTS)}
    asking = {path: count for path, count in asking.items() if count and path not in PORT}
    yield "is it a script, outside of the port", f"{sum(asking.values())} times in {len(asking)} modules"
    for path, count in asking.items():
        yield "", f"{path}: {count}"
    ranks = [path for path, tree in trees.items() if not path.startswith(STARTS_RANKS) and names_ranks(tree)]
    yield "modules that name ranks elsewhere", f"{len(ranks)}"
    for path in ranks:
        yield "", path
    pairs = held_in_turn(trees)
    yield "two classes that hold each other", f"{len(pairs)}"
    for both in pairs:
        yield "", ", ".join(both)
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
