"""See what a script writes elsewhere than in its working folder. Imports the standard library alone."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any

from autoaccel.runtime.script.private_copies import is_for_writing

_SYSTEM = ("/dev/", "/proc/", "/sys/")


class Writes:
    """Hears of files and folders that this process makes or writes."""

    def __init__(self, own: tuple[str, ...]) -> None:
        """Hear of them until the process ends: Python lets nobody end that.

        Args:
            own: Folders of its own: what is written there is no news.
        """
        self._own = tuple(os.path.realpath(folder) + os.sep for folder in own)
        self._paths: dict[str, None] = {}
        self._process = os.getpid()
        sys.addaudithook(self._hear)

    def outside(self) -> tuple[str, ...]:
        """Return what was written elsewhere and is still there; of a new folder nothing that lies in it.

        The way of a link counts: large files are links in a scratch folder.
        """
        found: list[str] = []
        for path in sorted({os.path.realpath(path) for path in self._paths}):
            within = any(path.startswith(folder + os.sep) for folder in found)
            if not within and not f"{path}{os.sep}".startswith((*self._own, *_SYSTEM)) and os.path.lexists(path):
                found.append(path)
        return tuple(found)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note what an event of Python's names; it is told before it happens."""
        match event:
            case "open" if is_for_writing(*arguments[1:3]) and not self._is_folder(arguments[0]):
                self._note(arguments[0])
            case "os.mkdir" if not self._exists(arguments[0]):
                self._note(arguments[0])
            case "os.rename" | "os.link" | "os.symlink" | "shutil.copyfile" | "shutil.copytree" | "shutil.move":
                self._note(arguments[1])
            case "os.truncate" | "sqlite3.connect":
                self._note(arguments[0])

    def _is_folder(self, path: Any) -> bool:
        """Whether it is one: opened for writing, it holds a file without a name, which is gone when it is closed."""
        return isinstance(path, (str, bytes, os.PathLike)) and Path(os.fsdecode(path)).is_dir()

    def _exists(self, path: Any) -> bool:
        return isinstance(path, (str, bytes, os.PathLike)) and os.path.lexists(path)

    def _note(self, path: Any) -> None:
        if os.getpid() != self._process or not isinstance(path, (str, bytes, os.PathLike)):
            return  # a child tells nobody; a number is a file that was opened before
        with contextlib.suppress(OSError):  # its working folder may be gone
            text = str(Path.cwd() / os.fsdecode(path))
            if "__pycache__" not in text:
                self._paths[text] = None
