"""What a script starts with in its process, and is given again when it is run once more in the same one.

Imports nothing but the standard library, as `entry` does.
"""

from __future__ import annotations

import gc
import io
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autoaccel.runtime.script.entry import installed_folders
from autoaccel.runtime.script.process import ProcessState


class Input(io.TextIOWrapper):
    """A standard input that remembers whether it was read."""

    def __init__(self, path: str) -> None:
        """Open the file anew, also as the descriptor 0, which a script may read itself."""
        with Path(path).open("rb") as file:
            os.dup2(file.fileno(), 0)
        super().__init__(open(0, "rb", closefd=False))  # noqa: SIM115  # it is open until the process ends
        self.was_read = False

    def read(self, size: int | None = -1) -> str:
        """Return what is left of it, or so many characters."""
        self.was_read = True
        return super().read(size)

    def readline(self, size: int = -1) -> str:  # type: ignore[override]  # of which there are several
        """Return its next line."""
        self.was_read = True
        return super().readline(size)

    def __next__(self) -> str:  # type: ignore[override]  # io.IOBase says bytes
        """Return its next line."""
        self.was_read = True
        return super().__next__()


class Start:
    """How a process is before a script begins in it."""

    def __init__(self, folder: str, stdin: str) -> None:
        """Take the rest of it from the process as it is now.

        Args:
            folder: That the script is run in.
            stdin: The file that its standard input is; empty: none.
        """
        self._folder, self._stdin = folder, stdin or os.devnull
        self._argv, self._path, self._environment = list(sys.argv), list(sys.path), dict(os.environ)
        self._environment["PWD"] = str(Path(folder).resolve())
        self._modules = frozenset(sys.modules)
        self._process = ProcessState()
        self._has_gone = False

    def go(self) -> None:
        """Make the process so; what a script has left behind that was run before is forgotten."""
        os.chdir(self._folder)
        sys.argv[:], sys.path[:] = self._argv, self._path
        self.input = sys.stdin = Input(self._stdin)
        os.environ.clear()
        os.environ.update(self._environment)
        if self._has_gone:
            self._process.put_back()
            _forget_modules(self._modules)
            _forget_handlers()
            _restore_torch()
            _let_start_method_be_set_again()
            gc.collect()  # its model must not stay beside that of the next run
        self._has_gone = True


def _forget_modules(before: frozenset[str]) -> None:
    """Forget `__main__` and the user's own modules that were imported since: the script begins anew."""
    installed = installed_folders()
    sys.modules["__main__"].__dict__.clear()
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and not file.startswith(installed):
            del sys.modules[name]


def _forget_handlers() -> None:
    """Forget where log messages go: with each run there would be more of these places."""
    for logger in (logging.root, *logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            logger.handlers.clear()


def _let_start_method_be_set_again() -> None:
    for name in ("multiprocessing", "torch.multiprocessing"):
        module: Any = sys.modules.get(name)
        if module is not None and not hasattr(module.set_start_method, "forces"):
            module.set_start_method = _forcing(module.set_start_method)


def _forcing(own: Callable[..., None]) -> Callable[..., None]:
    def set_start_method(method: str | None, force: bool = False) -> None:
        own(method, force=True)

    set_start_method.forces = True  # type: ignore[attr-defined]  # marks it as ours
    return set_start_method


def _restore_torch() -> None:
    """Put back what of torch a script may leave so that its next run would fail, or be another."""
    import torch

    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    if (dynamo := sys.modules.get("torch._dynamo")) is not None:
        dynamo.reset()  # what it has compiled looks at modules that are gone
    torch.set_num_interop_threads = lambda nthreads: None  # torch takes it once, and has it by now
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
