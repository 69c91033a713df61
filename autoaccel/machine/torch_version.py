"""Which torch is installed, without importing it."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
from pathlib import Path

from autoaccel.machine.kernel_files import read_text


def read_torch_version() -> str:
    """Return what `torch.__version__` is, such as `2.15.0+cu132`; without the build where torch's files do not tell it.

    The metadata of the distribution leaves out the build of every torch that the usual registry has.

    Raises:
        importlib.metadata.PackageNotFoundError: If torch is not installed.
    """
    spec = importlib.util.find_spec("torch")
    for folder in (spec and spec.submodule_search_locations) or ():
        if told := _assigned_version(read_text(Path(folder) / "version.py") or ""):
            return told
    return importlib.metadata.version("torch")


def _assigned_version(source: str) -> str | None:
    """Return the text that the source of a module assigns to `__version__`; it is not run."""
    try:
        statements = ast.parse(source).body
    except SyntaxError:
        return None
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(id="__version__")], value=ast.Constant(value=str(version))):
                return version
    return None
