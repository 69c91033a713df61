"""Run a script as Python itself does: a real `__main__`, its own argv, sys.path and tracebacks.

Imports nothing but the standard library, and what imports nothing: a script may set OMP_NUM_THREADS before it imports
torch, and whoever imports torch first decides what that does.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import sys
import sysconfig
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from autoaccel.runtime.hosting import host

_HOME = str(Path(__file__).parents[2]) + os.sep
_OURS = (_HOME, "<frozen importlib", "<frozen runpy", "<string>")


def installed_folders() -> tuple[str, ...]:
    """Return the folders of installed modules: what lies elsewhere is the user's own code."""
    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return (_HOME, *sorted(f"{folder}{os.sep}" for folder in found))


def enter(folder: str, program: str, arguments: tuple[str, ...]) -> None:
    """Make argv and sys.path what the script expects.

    Modules of ours that have the name of one in that folder give way to it, as they would in a fresh Python: those
    that imported them keep them.

    Args:
        folder: Where its imports look first.
        program: Its sys.argv[0].
        arguments: Its sys.argv[1:].
    """
    host()
    sys.argv = [program, *arguments]
    sys.path.insert(0, folder)
    for name in [name for name in sys.modules if "." not in name]:
        if name not in _AT_START and ((Path(folder) / f"{name}.py").exists() or (Path(folder) / name).is_dir()):
            for module in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
                del sys.modules[module]


_AT_START = {"autoaccel", "__main__", *sys.builtin_module_names, *(sys.stdlib_module_names & sys.modules.keys())}
"""What a script cannot shadow: ours, and what of the standard library Python has loaded by now."""


def run_main(path: str, module: str = "") -> None:
    """Run the file as `__main__` until it ends.

    Args:
        path: Of the file.
        module: That it is, where it is run as `python -m` does; of a package, its `__main__`. Empty: it is a program.

    Raises:
        BaseException: Whatever it raises, SystemExit included.
    """
    # One that was emptied is filled again: compilers keep the module that they once found under this name.
    main = sys.modules["__main__"]
    if vars(main):
        main = ModuleType("__main__")
    vars(main).update(vars(ModuleType("__main__")))
    main.__file__ = path
    main.__loader__ = SourceFileLoader("__main__", path)
    main.__dict__.update(__builtins__=builtins, __cached__=None, __annotations__={})
    if module:
        _belong_to_package(main, module)
    sys.modules["__main__"] = main
    with io.open_code(path) as file:
        source = file.read()
    exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)


def _belong_to_package(main: ModuleType, module: str) -> None:
    """Give a `__main__` the names by which it imports what is beside it, and a spawned process imports it."""
    spec = importlib.util.find_spec(module)  # imports the packages that it is in
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{module}.__main__")
    if spec is not None:
        main.__spec__, main.__package__, main.__loader__ = spec, spec.parent, spec.loader
        main.__dict__["__cached__"] = spec.cached


def main(path: str, module: str = "") -> None:
    """Run the file as `__main__` and end as Python does: what it does not catch is shown without our frames.

    See `run_main`.

    Raises:
        BaseException: Whatever it raises, so that Python itself shows it and ends with its exit code.
    """
    try:
        run_main(path, module)
    except SystemExit:
        raise
    except BaseException as error:
        sys.excepthook = hiding(sys.excepthook)
        raise without_ours(error)  # noqa: B904  # it is the same error


def hiding(show: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook that shows an error without the frames through which it left our code."""

    def shown(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        without_ours(error)
        show(kind, error, error.__traceback__)

    return shown


def without_ours(error: BaseException) -> BaseException:
    """Return the error, from whose tracebacks and causes our frames are taken out, unless they are all there is."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        found = pending.pop()
        if found is not None and id(found) not in seen:
            seen.add(id(found))
            found.__traceback__ = _users(found.__traceback__)
            pending += [found.__cause__, found.__context__]
    return error


def _users(trace: TracebackType | None) -> TracebackType | None:
    frames: list[TracebackType] = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_OURS):
            frames.append(trace)
        trace = trace.tb_next
    for frame, following in zip(frames, [*frames[1:], None], strict=False):
        frame.tb_next = following
    return frames[0] if frames else None
