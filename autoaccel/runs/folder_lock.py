"""FolderLock: one process at a time works in the folder of a run, and the lock ends with its owner."""

from __future__ import annotations

import datetime
import errno
import fcntl
import os
import platform
from pathlib import Path

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.records.base import Record, decode, encode

LOCK = "lock"
"""Name of the file in the run's folder; it is there while a process works in the folder, and after that was killed."""

_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)  # by some network file systems


class Holder(Record, frozen=True):
    """Who holds a lock."""

    pid: int
    host: str
    since: str  # local time, ISO 8601


class FolderLock:
    """A lock of the kernel's (flock) on a file in the folder: no process that is gone can hold it.

    The descriptor is closed in every program that this process starts, so that no worker that outlives it keeps the
    lock. Where the file system has no locks, nothing is refused.
    """

    def __init__(self, folder: Path) -> None:
        """Begin without the lock.

        Args:
            folder: That exists when the lock is taken.
        """
        self._folder = folder
        self._path = folder / LOCK
        self._descriptor: int | None = None

    def refuse_if_held(self) -> None:
        """Refuse what would have to wait, without taking the lock.

        Raises:
            BadRequestError: Naming the process that holds it.
        """
        if self._path.exists():
            self.take()
            self._close()

    def take(self) -> None:
        """Take the lock.

        Raises:
            BadRequestError: Naming the process that holds it, or why the folder cannot be written to.
        """
        while self._descriptor is None:
            try:
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            except OSError as error:
                raise BadRequestError(
                    f"{self._path}: cannot be written ({error.strerror}). Name another folder with --output."
                ) from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    held = os.pread(descriptor, 4096, 0)
                    os.close(descriptor)
                    raise BadRequestError(f"{self._folder}: {_words(held)}") from error
            if _is_at(self._path, descriptor):
                self._descriptor = descriptor
            else:
                os.close(descriptor)  # whoever held it has removed the file since it was opened
        since = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, encode(Holder(os.getpid(), platform.node(), since)), 0)

    def release(self) -> None:
        """Give the lock up, and remove its file."""
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)  # while it is held: whoever waits for this file takes it for gone
            self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _words(held: bytes) -> str:
    """Return the sentence for a folder in which another process works."""
    try:
        holder = decode(held, Holder)
    except msgspec.MsgspecError:  # it has just taken the lock
        who = "another process"
    else:
        where = "" if holder.host == platform.node() else f" on {holder.host}"
        who = f"process {holder.pid}{where} (since {holder.since})"
    return f"{who} is tuning in this folder. Wait until it has ended, stop it, or name another folder with --output."
