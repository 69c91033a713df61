"""TemporaryFolder: one place for all that a run needs for a while, gone after it, even where the run was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path
from types import TracebackType

from autoaccel.errors import BadRequestError

_PREFIX = "autoaccel-run-"
_LOCK = "lock"  # in the folder; held as long as its run lives

_SOCKET_BYTES = 107  # of a socket's path at most: sun_path of linux/un.h has 108 bytes, with the zero at its end
_IN_WORKERS = "/pymp-xxxxxxxx/listener-xxxxxxxx"  # where multiprocessing puts its sockets, below TMPDIR
MAX_TMPDIR_BYTES = _SOCKET_BYTES - len(_IN_WORKERS)
"""Of the path of a worker's TMPDIR: in a longer one multiprocessing's sockets have no room."""


class TemporaryFolder:
    """A folder of this process alone, for one run. Leaving the `with` block removes it.

    This process holds a lock in it, which dies with it: the next run removes what nobody holds.
    """

    def __init__(self, place: Path | None = None) -> None:
        """Make it, for this user alone, and remove what killed runs have left beside it.

        Args:
            place: Where to make it; None: in the system's folder for temporary files.

        Raises:
            BadRequestError: If it cannot be made.
        """
        self._count = 0
        place = place or _place()
        try:
            _remove_abandoned(place)
            self.path, self._lock = _make(place)
        except OSError as error:
            raise BadRequestError(
                f"{place}: a folder for temporary files cannot be made here ({error.strerror}). Name another with "
                "TMPDIR=FOLDER."
            ) from error

    def __enter__(self) -> TemporaryFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def new(self) -> Path:
        """Return a new folder in it, at a short path: the TMPDIR of a worker."""
        self._count += 1
        folder = self.path / str(self._count)
        folder.mkdir(0o700)
        return folder

    def close(self) -> None:
        """Remove it; a second time does nothing."""
        if self._lock >= 0:
            _remove(self.path)
            os.close(self._lock)
            self._lock = -1


def _place() -> Path:
    """Return the system's folder for temporary files as the user has it; /tmp if sockets have no room below that."""
    own = Path(tempfile.gettempdir())
    longest = own / f"{_PREFIX}xxxxxxxx" / "99999"
    usual = Path("/tmp")
    return own if len(os.fsencode(longest)) <= MAX_TMPDIR_BYTES or not os.access(usual, os.W_OK) else usual


def _make(place: Path) -> tuple[Path, int]:
    """Return a new folder and the descriptor of its lock, which no program that is started inherits."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))  # for this user alone
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # another run took the empty folder for one that was left
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat((folder / _LOCK).stat(), os.fstat(lock)):
                return folder, lock
        except (BlockingIOError, FileNotFoundError):
            pass  # until it was locked, another run took it for one that was left
        except OSError:  # a file system without locks, where no run removes what another has left
            return folder, lock
        os.close(lock)


def _remove_abandoned(place: Path) -> None:
    """Remove this user's folders whose runs are dead."""
    with os.scandir(place) as entries:
        folders = [Path(entry.path) for entry in entries if entry.name.startswith(_PREFIX)]
    for folder in folders:
        with contextlib.suppress(OSError):  # another run has just removed it, or it is not ours to remove
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        folder.rmdir()  # fails unless it is empty: of a run that was killed before it could make the lock
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its run lives
        _remove(folder)
    finally:
        os.close(lock)


def _remove(folder: Path) -> None:
    """Remove a folder whose lock is held; as much of it as can be removed."""
    for entry in list(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            remove_tree(entry)
        elif entry.name != _LOCK:
            entry.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # something is left: the lock stays, by which the next run finds it
        if [entry.name for entry in folder.iterdir()] == [_LOCK]:
            (folder / _LOCK).unlink()
            folder.rmdir()


def remove_tree(folder: Path) -> None:
    """Remove a folder and all that is in it, or as much as can be."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # trainings make folders which nobody may look into or write to
        folder.chmod(0o700)
        for path, inner, _ in os.walk(folder):
            for one in (Path(path, name) for name in inner):
                if not one.is_symlink():
                    one.chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)
