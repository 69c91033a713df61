"""Find the user's file, or pickle a function that has none; no line of the user's code runs here."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from autoaccel.errors import BadRequestError
from autoaccel.records.workload import DEFAULT_ENTRY, BuildFunction, PickledFunction, Workload


def find_workload(target: str, arguments: Sequence[str] = ()) -> Workload:
    """Return the workload for `model.py` or `model.py:entry`; its build() sees the arguments in sys.argv[1:].

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
    path = path.resolve()
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    if path.suffix == ".pkl":
        return PickledFunction(path=str(path), sha256=sha256, arguments=tuple(arguments))
    return BuildFunction(path=str(path), entry=entry, sha256=sha256, arguments=tuple(arguments))


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
