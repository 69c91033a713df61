"""Find the user's file, or pickle a function that has none; no line of the user's code runs here."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from autoaccel.errors import BadRequestError
from autoaccel.records.workload import DEFAULT_ENTRY, BuildFunction, PickledFunction, Script, Workload


def find_workload(target: str, arguments: Sequence[str] = (), is_script: bool = False) -> Workload:
    """Return the workload for `model.py` or `model.py:entry`; it sees the arguments in sys.argv[1:].

    A file that defines no `build` is a script. Its text tells; it is not imported.

    Args:
        target: As a person types it.
        arguments: For the file.
        is_script: Whether it is to be run as a script though it may define `build`.

    Raises:
        BadRequestError: If there is no such file, or the entry is no name.
    """
    file, colon, entry = target.rpartition(":")
    if not colon or not entry.isidentifier():
        file, entry = target, DEFAULT_ENTRY
    path = Path(file)
    if not path.is_file():
        raise BadRequestError(f"{file}: there is no such file. Name a Python file that defines build().")
    if path.suffix not in (".py", ".pkl"):
        raise BadRequestError(f"{file}: must be a Python file (.py) that defines build().")
    program, path, folder = file, path.resolve(), str(Path.cwd())
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    if path.suffix == ".pkl":
        return PickledFunction(path=str(path), sha256=sha256, arguments=tuple(arguments))
    if is_script or (file == target and not _may_define(path, DEFAULT_ENTRY)):
        return Script(path=str(path), program=program, folder=folder, sha256=sha256, arguments=tuple(arguments))
    return BuildFunction(path=str(path), entry=entry, sha256=sha256, arguments=tuple(arguments))


def _may_define(path: Path, name: str) -> bool:
    """Whether a file gives something at its top level this name; also if it cannot be read, so that Python says why."""
    try:
        pending: list[ast.AST] = [ast.parse(path.read_bytes())]
    except (SyntaxError, ValueError):
        return True
    while pending:
        for node in ast.iter_child_nodes(pending.pop()):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                if node.name == name:
                    return True
            elif isinstance(node, ast.alias):
                if (node.asname or node.name) in (name, "*"):
                    return True
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
                return True
            else:
                pending.append(node)
    return False


def pickle_workload(build: Callable[[], Any], path: Path) -> Workload:
    """Return the workload for a function, written to the path by value.

    A function of the main module, of a notebook above all, can be imported by nobody else.

    Raises:
        BadRequestError: If it is no function, or holds on to something that cannot be pickled.
    """
    import cloudpickle

    if not callable(build):
        raise BadRequestError(
            f"build must be a function that returns a Training, or a file, got {type(build).__name__}."
        )
    name = getattr(build, "__name__", DEFAULT_ENTRY)
    try:
        path.write_bytes(cloudpickle.dumps(build))
    except Exception as error:  # whatever the user's objects raise
        raise BadRequestError(
            f"{name}() refers to something that cannot be sent to another process: {error}. Create it inside the "
            "function."
        ) from error
    return find_workload(str(path))
