"""Find the user's file, or pickle a function that has none; no line of the user's code runs here."""

from __future__ import annotations

import ast
import hashlib
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.records.files import is_regular, parse_source
from autoaccel.records.workload import DEFAULT_ENTRY, BuildFunction, PickledFunction, Script, Workload
from autoaccel.units import excerpt


class _Named(NamedTuple):
    """A file that a person has named."""

    path: Path  # resolved
    program: str  # its sys.argv[0] if it is run
    entry: str | None  # the function in it that they have named
    defines_build: bool  # as far as its text tells; not of an installed program, which has no ending


def find_workload(target: str, arguments: Sequence[str] = ()) -> Workload:
    """Return the workload for `model.py` or `model.py:entry`; it sees the arguments in sys.argv[1:].

    A file that defines no `build` is a script. Its text tells; it is not imported.

    Args:
        target: As a person types it.
        arguments: For the file.

    Raises:
        BadRequestError: If there is no such file, or it is no Python.
    """
    named = _named(target)
    path, sha256 = str(named.path), digest_of([named.path])
    if named.path.suffix == ".pkl":
        return PickledFunction(path=path, sha256=sha256, arguments=tuple(arguments))
    entry = named.entry or (DEFAULT_ENTRY if named.defines_build else None)
    if entry is None:
        return _script_in(named, arguments)
    return BuildFunction(path=path, entry=entry, sha256=sha256, arguments=tuple(arguments))


def find_script(target: str, arguments: Sequence[str] = ()) -> Workload:
    """Return the workload of a file that is to be run as a script though it may define `build`; see `find_workload`."""
    named = _named(target)
    if named.path.suffix == ".pkl":  # which nothing could run
        return find_workload(target, arguments)
    return _script_in(named, arguments)


def _named(target: str) -> _Named:
    file, colon, entry = target.rpartition(":")
    is_entry = bool(colon) and entry.isidentifier()
    file = file if is_entry else target
    path = _existing(file)
    is_program = path.suffix not in (".py", ".pkl")
    if is_program and not _has_python_shebang(path):
        raise BadRequestError(f"{file}: must be a Python file: one named *.py, or a program that begins with #!python.")
    resolved = path.resolve()
    if is_program:
        return _Named(resolved, str(path), None, False)
    defines_build = resolved.suffix != ".pkl" and _may_define(resolved, DEFAULT_ENTRY)
    return _Named(resolved, file, entry if is_entry else None, defines_build)


def _script_in(named: _Named, arguments: Sequence[str]) -> Script:
    script = Script(
        path=str(named.path),
        program=named.program,
        folder=str(Path.cwd()),
        sha256=digest_of([named.path]),
        arguments=tuple(arguments),
        forced=named.defines_build,
    )
    return _of_what_is_launched(script)


def find_module(name: str, arguments: Sequence[str] = ()) -> Script:
    """Return the workload that `python -m NAME` would run in this folder; nothing of it is imported.

    Args:
        name: Of the module; of a package its `__main__` is run.
        arguments: For it.

    Raises:
        BadRequestError: If there is no such module, or it has no source.
    """
    path = _source_of(name) or _source_of(f"{name}.__main__")
    if path is None:
        raise BadRequestError(
            f"-m {name}: must be a module with Python source, in this folder or installed, and there is none. Of a "
            "package the module __main__ is run."
        )
    script = Script(
        path=str(path),
        program=str(path),  # as `python -m` has it
        folder=str(Path.cwd()),
        sha256=digest_of([path]),
        arguments=tuple(arguments),
        module=name,
    )
    return _of_what_is_launched(script)


def with_stdin(workload: Workload, file: str | None) -> Workload:
    """Return the workload of a script that reads a file as its standard input.

    Args:
        workload: Without one.
        file: As a person typed it; None: there is none.

    Raises:
        BadRequestError: If it is no script, or there is no such file.
    """
    if file is None:
        return workload
    script = workload.must_be_script("--stdin: for a script only; build() is called without a standard input.")
    if not is_regular(Path(file)):  # a pipe, as /dev/stdin may be, could be read by the first trial alone
        raise BadRequestError(
            f"--stdin {excerpt(file, 300)}: must be a regular file, which each trial reads from its start."
        )
    return msgspec.structs.replace(script, stdin=str(Path(file).resolve()))


def _of_what_is_launched(script: Script) -> Script:
    """Return the script; of a launcher with the digest of the files that it starts, which are what may change."""
    return msgspec.structs.replace(script, sha256=digest_of(files_of(script)))


def files_of(workload: Workload) -> list[Path]:
    """Return the files that the digest of a workload is of: its own, of a launcher those that it starts."""
    if (launcher := workload.launcher) is not None:
        files = (Path(argument) for argument in launcher.arguments if argument.endswith(".py"))
        if started := [file for file in files if file.is_file()]:
            return started
    return [Path(workload.path)]


def digest_of(files: Sequence[Path]) -> str:
    """Return the SHA-256 of what is in these files, in their order.

    Raises:
        OSError: If one cannot be read.
    """
    return hashlib.sha256(b"".join(map(Path.read_bytes, files))).hexdigest()


def _source_of(name: str) -> Path | None:
    """Return the file of a module. Not by importlib, which imports the packages that it is in."""
    *packages, last = name.split(".")
    places = [Path.cwd(), *map(Path, sys.path)]  # `python -m` looks into the working folder first
    for package in packages:
        folders = [place / package for place in places if (place / package).is_dir()]
        whole = [folder for folder in folders if (folder / "__init__.py").is_file()]
        places = whole[:1] or folders
    files = (place / f"{last}.py" for place in places if not (place / last / "__init__.py").is_file())
    return next((file.resolve() for file in files if file.is_file()), None)


def _existing(file: str) -> Path:
    """Return the file, or the installed program of that name."""
    path = Path(file)
    if is_regular(path):
        return path
    program = shutil.which(file) if path.name == file and not path.suffix and file.isprintable() else None
    if program is None:
        raise BadRequestError(
            f"{excerpt(file, 300)}: there is no such file. Name a Python file: a script, or one with build()."
        )
    return Path(program)


def _has_python_shebang(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            first = file.readline(256)
    except OSError as error:
        raise BadRequestError(f"{path}: cannot be read ({error.strerror}). Name a Python file.") from error
    return first.startswith(b"#!") and b"python" in first


def _may_define(path: Path, name: str, seen: frozenset[Path] = frozenset()) -> bool:
    """Whether a file gives something at its top level this name; also if it cannot be read, so that Python says why.

    Of a module from which it imports all names, the source tells; from one that has none beside the file, as installed
    packages, nothing of this name is expected.

    Args:
        path: Of the file.
        name: Of what is looked for.
        seen: Files that are being looked at: two may import from each other.
    """
    try:
        pending: list[ast.AST] = [parse_source(path, "a training")]
    except SyntaxError:
        return True
    while pending:
        for node in ast.iter_child_nodes(pending.pop()):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                if node.name == name:
                    return True
            elif isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                source = _module_beside(path, node)
                if source is not None and source not in seen and _may_define(source, name, seen | {path}):
                    return True
            elif isinstance(node, ast.alias):
                if (node.asname or node.name) == name:
                    return True
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
                return True
            else:
                pending.append(node)
    return False


def _module_beside(path: Path, statement: ast.ImportFrom) -> Path | None:
    """Return the source of the module that a file imports from, if it lies in the file's folder or below."""
    place = path.parent.joinpath(*(statement.module or "").split(".")) if statement.level <= 1 else None
    if place is None:
        return None
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)


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
