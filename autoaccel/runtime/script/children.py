"""Processes that a script starts itself, with multiprocessing: do they train, though this one does not?

Each counts its updates in a file, of which it makes a byte longer by each: whether it was forked, or is a new Python.
Imports no torch where it is a new Python, before that does so itself.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autoaccel.errors import BadRequestError
from autoaccel.records.launching import COUNTED, OWN_PATH, PATH
from autoaccel.runtime.script.torch_import import when_torch_is_imported

_SITE = str(Path(__file__).parent / "site")
_ENOUGH = 4  # updates; those of a test, or of one that is warmed up in a process of its own, are fewer
_LOOK_SECONDS = 0.2
_PATIENCE_SECONDS = 5.0  # after that, in which this process may begin to train as well


class Children:
    """Hears of the updates that are made in processes which this one starts."""

    def __init__(self, train: Callable[[], None]) -> None:
        """Begin to hear.

        Args:
            train: Called once, in a thread, when they have made some.
        """
        self._train = train
        descriptor, self._path = tempfile.mkstemp(prefix="updates-")
        os.close(descriptor)
        self._process = os.getpid()
        self._is_watching = False
        os.register_at_fork(after_in_parent=self._watch, after_in_child=self._forked)
        self._hear_starts()

    @property
    def updates(self) -> int:
        """How many they have made."""
        try:
            return Path(self._path).stat().st_size
        except OSError:  # the script has emptied its folder for temporary files
            return 0

    def _hear_starts(self) -> None:
        # Of multiprocessing, which torch has imported; it is not for us to start processes.
        kind: Any = sys.modules["multiprocessing.process"].BaseProcess
        own = kind.start

        def start(process: Any) -> None:
            if os.getpid() != self._process:
                own(process)
                return
            before = {name: os.environ.get(name) for name in (PATH, OWN_PATH, COUNTED)}
            path = before[PATH] or ""
            os.environ.update({PATH: os.pathsep.join(filter(None, (_SITE, path))), OWN_PATH: path, COUNTED: self._path})
            try:
                own(process)
            finally:
                for name, value in before.items():
                    if value is None:
                        os.environ.pop(name, None)
                    else:
                        os.environ[name] = value
            self._watch()

        kind.start = start

    def _forked(self) -> None:
        for name in (OWN_PATH, COUNTED):
            os.environ.pop(name, None)
        count_updates(self._path)

    def _watch(self) -> None:
        if not self._is_watching and os.getpid() == self._process:
            self._is_watching = True
            threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while self.updates < _ENOUGH:
            time.sleep(_LOOK_SECONDS)
        time.sleep(_PATIENCE_SECONDS)
        self._train()


def trains_elsewhere(by: str) -> BadRequestError:
    """Return the error that says so, and what to do; `by` names the module that starts the processes."""
    return BadRequestError(
        f"it trains in processes that it starts itself, with {by}, where its steps are not heard. Let torchrun start "
        "them, and name that as the program: `autoaccel tune torchrun -- ...`."
    )


def count_updates(path: str) -> None:
    """Count the updates of optimizers that this process makes from now on in a file."""
    when_torch_is_imported(lambda: _count(path))


def _count(path: str) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def update(*_: Any) -> None:
        try:
            with open(path, "ab") as file:  # noqa: PTH123  # at the end, whoever else writes
                file.write(b".")
        except OSError:
            return

    register_optimizer_step_post_hook(update)
