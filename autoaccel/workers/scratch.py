"""Scratch folders: what a script writes in a trial ends up beside links to its data, and is gone after it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from autoaccel.workers.worker import Worker

_LEVELS = 2  # folders above the working folder in which a path such as ../data still leads somewhere
_MAX_ENTRIES = 5_000  # of all folders that are made anew; others are linked as a whole, as data sets are
_MAX_FOLDER = 1_000  # entries of one folder that is made anew
_COPIED_BYTES = 1 << 20  # a larger file is data, and linked,
_WRITTEN_AGAIN = frozenset({".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".h5", ".hdf5", ".pkl", ".sqlite", ".db"})
"""unless it may be a checkpoint or a database, which a trial would write over through its link."""
_LINKED = frozenset({".git", ".venv", "venv", "node_modules"})  # as a whole: nobody trains into them
_LEFT_OUT = frozenset({"autoaccel-runs"})  # ours
_CLONE = 0x40049409  # FICLONE of linux/fs.h: both files share their blocks until one is written to


_OFFLINE = {
    "WANDB_MODE": "offline",
    "NEPTUNE_MODE": "offline",
    "CLEARML_OFFLINE_MODE": "1",
    "SWANLAB_MODE": "offline",
}
"""Variables that make trackers write to files instead of to a server, as their manuals have them."""


def trackers_offline(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables under which a trial shows up on no tracker's server, as far as variables decide that.

    Args:
        environment: All variables that it would have.
    """
    # Without this variable MLflow writes to the working folder.
    mlflow = {"MLFLOW_TRACKING_URI": "sqlite:///mlflow.db"} if "MLFLOW_TRACKING_URI" in environment else {}
    return {**_OFFLINE, **mlflow}


class Scratches:
    """Gives each worker a folder that looks like the script's own."""

    def __init__(self) -> None:
        self._root: Path | None = None
        self._count = 0
        self._used: list[tuple[Worker, Path]] = []

    def new(self, own: Path) -> Path:
        """Return a folder with what is in a script's working folder; files of data are links.

        Args:
            own: The working folder.
        """
        self._remove(closed_only=True)
        self._root = self._root or Path(tempfile.mkdtemp(prefix="autoaccel-scratch-"))
        self._count += 1
        return _mirror(own, self._root / str(self._count))

    def give(self, worker: Worker, scratch: Path) -> None:
        """The folder is this worker's; it is removed some time after the worker was closed."""
        self._used.append((worker, scratch))

    def folders(self) -> list[Path]:
        """Return what holds them, if there are any; those of closed workers are removed."""
        self._remove(closed_only=True)
        return [self._root] if self._root is not None else []

    def close(self) -> None:
        """Remove all of them."""
        self._remove(closed_only=False)
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)

    def _remove(self, closed_only: bool) -> None:
        for worker, scratch in list(self._used):
            if worker.is_closed or not closed_only:
                shutil.rmtree(scratch, ignore_errors=True)
                self._used.remove((worker, scratch))


def _mirror(own: Path, into: Path) -> Path:
    """Return a folder like another, in folders like those above it."""
    above = [own, *own.parents][: _LEVELS + 1]
    scratch = into
    for folder, inner in zip(reversed(above[1:]), reversed(above[:-1]), strict=True):
        scratch.mkdir(parents=True)
        for entry in _entries(folder):
            if entry.name != inner.name:
                (scratch / entry.name).symlink_to(entry.path)
        scratch = scratch / inner.name
    scratch.mkdir(parents=True)
    left = _MAX_ENTRIES
    pending = [(own, scratch)]
    while pending:
        folder, like = pending.pop()
        entries = [entry for entry in _entries(folder) if entry.name not in _LEFT_OUT]
        left -= len(entries)
        for entry in entries:
            target = like / entry.name
            if _is_made_anew(entry, left):
                target.mkdir()
                pending.append((Path(entry.path), target))
            else:
                _link_or_copy(entry, target)
    return scratch


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing if it is too full to be looked at, or must not be."""
    with contextlib.suppress(OSError), os.scandir(folder) as found:  # it must not be looked at
        entries = list(_at_most(found, _MAX_FOLDER + 1))
        return entries if len(entries) <= _MAX_FOLDER else []
    return []


def _at_most(entries: Iterator[os.DirEntry[str]], count: int) -> Iterator[os.DirEntry[str]]:
    for _, entry in zip(range(count), entries, strict=False):
        yield entry


def _is_made_anew(entry: os.DirEntry[str], left: int) -> bool:
    if entry.is_symlink() or not entry.is_dir() or entry.name in _LINKED:
        return False
    with os.scandir(entry.path) as found:
        return len(list(_at_most(found, _MAX_FOLDER + 1))) <= min(left, _MAX_FOLDER)


def _link_or_copy(entry: os.DirEntry[str], target: Path) -> None:
    is_file = not entry.is_symlink() and entry.is_file()
    if is_file and (entry.stat().st_size <= _COPIED_BYTES or Path(entry.name).suffix.lower() in _WRITTEN_AGAIN):
        _copy(Path(entry.path), target)
    else:
        target.symlink_to(entry.path)


def _copy(own: Path, target: Path) -> None:
    import fcntl

    try:
        with own.open("rb") as source, target.open("wb") as copy:
            fcntl.ioctl(copy, _CLONE, source.fileno())
    except OSError:  # a file system without shared blocks
        shutil.copyfile(own, target)
    shutil.copymode(own, target)
