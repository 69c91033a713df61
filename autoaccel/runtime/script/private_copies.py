"""Private copies: a script that works in a copy of its folder, in which large files are links, writes to none of them.

Before a link is written through, a copy takes its place. Python tells of that what it does itself; what libraries do
below it, and programs that are started, the kernel must forbid. Imports the standard library alone.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autoaccel.runtime.script.torch_import import when_torch_is_imported

_CLONE = 0x40049409  # FICLONE of linux/fs.h: both files share their blocks until one is written to
_CHUNK_BYTES = 8 << 20
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC


def copy_before_writing(scratch: str | None) -> None:
    """Put a copy in the place of each link that this process is about to write through, until it ends.

    Args:
        scratch: The folder that stands for "/", in which the script's folder is copied; None: it is not.
    """
    if scratch is not None:
        copies = PrivateCopies(scratch)
        when_torch_is_imported(copies.hear_saves)


class PrivateCopies:
    """Puts a copy in the place of each link that this process is about to write through, until it ends."""

    def __init__(self, scratch: str) -> None:
        """Begin.

        Args:
            scratch: The folder that stands for "/", in which the script's folder is copied.
        """
        self._scratch = Path(scratch)
        self._here = threading.local()
        sys.addaudithook(self._hear)

    def hear_saves(self) -> None:
        """Hear of `torch.save` too: it opens files below Python, and its error does not name them."""
        import torch

        from autoaccel.runtime.script.events import before

        before(torch, "save", self._save_begins)

    def _save_begins(self, *arguments: object, **named: object) -> None:
        self._make_private(named.get("f", arguments[1] if len(arguments) > 1 else None), content=False)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Make room for what an event of Python's is about to do."""
        if getattr(self._here, "is_busy", False):
            return  # what it does itself is told as well
        match event:
            case "open" if is_for_writing(*arguments[1:3]):
                truncates = "w" in str(arguments[1] or "") or bool((arguments[2] or 0) & os.O_TRUNC)
                self._make_private(arguments[0], content=not truncates)
            case "os.chmod" | "os.chown" | "os.utime" | "os.truncate" | "os.setxattr" | "os.removexattr":
                self._make_private(arguments[0])
            case "sqlite3.connect":
                self._make_private(arguments[0])
            case "os.remove" | "os.rmdir" | "os.mkdir":
                self._make_private(arguments[0], of_its_folder=True)
            case "os.rename" | "os.link" | "os.symlink":
                for path in arguments[:2]:
                    self._make_private(path, of_its_folder=True)

    def _make_private(self, path: object, content: bool = True, of_its_folder: bool = False) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return  # a descriptor of a file that was opened before
        self._here.is_busy = True
        try:
            whole = Path.cwd() / os.fsdecode(path)
            make_private(whole.parent if of_its_folder else whole, self._scratch, content)
        except OSError:
            return  # the script is about to meet the same error, or to be refused
        finally:
            self._here.is_busy = False


def in_scratch(scratch: str, path: str) -> str:
    """Return the path under which a scratch folder has what lies at an absolute path."""
    return scratch + os.path.realpath(path)


def is_for_writing(mode: object, flags: object) -> bool:
    """Whether a file that is opened so, as Python's audit event tells, may be written to."""
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & _WRITES)


def make_private(path: Path, scratch: Path, content: bool = True) -> None:
    """Make what a path leads to a copy that may be written to, if it is a link, or leads through one.

    Args:
        path: Absolute. One that is not within the scratch folder is left alone.
        scratch: The folder that stands for "/".
        content: Whether a file is to have what is in it.
    """
    path = Path(os.path.normpath(path))
    ways = [path, *path.parents]
    within = ways[: ways.index(scratch)] if scratch in ways else []
    for here in reversed(within):
        own = Path("/", here.relative_to(scratch))
        if not here.is_symlink() or here.readlink() != own:
            continue
        if own.is_dir():
            here.unlink()
            here.mkdir()
            for entry in own.iterdir():
                (here / entry.name).symlink_to(entry)
        elif own.is_file() and here == path:
            aside = here.with_name(f".{here.name}.{os.getpid()}")
            if content:
                copy_file(own, aside)
            else:
                aside.touch(own.stat().st_mode & 0o7777)
            aside.replace(here)


def copy_file(own: Path, target: Path, clone_only: bool = False) -> bool:
    """Copy a file with its mode and times; holes stay holes, and blocks are shared where the file system can.

    Args:
        own: The file.
        target: Its copy.
        clone_only: Whether to copy nothing where blocks cannot be shared.

    Returns:
        Whether there is a copy.
    """
    import fcntl

    with own.open("rb") as source, target.open("wb") as copy:
        status = os.fstat(source.fileno())
        try:
            fcntl.ioctl(copy, _CLONE, source.fileno())
        except OSError:  # a file system without shared blocks
            if clone_only:
                target.unlink()
                return False
            for start, end in _data(source.fileno(), status.st_size):
                while start < end:
                    data = os.pread(source.fileno(), min(end - start, _CHUNK_BYTES), start)
                    start += os.pwrite(copy.fileno(), data, start)
            os.truncate(copy.fileno(), status.st_size)
    target.chmod(status.st_mode & 0o7777)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    return True


def _data(source: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield where the data of a file begin and end; what lies between is holes."""
    end = 0
    while end < size:
        try:
            start = os.lseek(source, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no more data
                return
            raise
        end = os.lseek(source, start, os.SEEK_HOLE)
        yield start, end
