"""A copy of a script's working folder, for where no overlay can be had: small files are copied, large ones are links.

Where the file system can let two files share their blocks (FICLONE), large files are such clones instead.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from autoaccel.runtime.script.private_copies import copy_file

_COPIED_BYTES = 1 << 20  # a larger file is linked, or cloned; and all are, after so many
_COPIED_FILES = 500
_LINKED = frozenset({".git", ".venv", "venv", "node_modules"})  # as a whole: nobody trains into them
_LEFT_OUT = frozenset({"autoaccel-runs"})  # ours


def mirror(own: Path, into: Path, private: frozenset[Path] = frozenset()) -> Path:
    """Return a folder like another, in folders like all those above it, in which everything else is a link.

    Args:
        own: The folder.
        into: The folder that stands for "/".
        private: Files that are no links but copies, whatever their size, and folders whose entries are links instead.
    """
    scratch = into
    for folder, inner in zip(reversed(own.parents), reversed([own, *own.parents][:-1]), strict=True):
        scratch.mkdir(parents=True, exist_ok=True)
        for entry in _entries(folder):
            if entry.name != inner.name:
                _link(entry, scratch / entry.name, private)
        scratch = scratch / inner.name
    scratch.mkdir(parents=True)
    copied = 0  # files
    pending = [(own, scratch)]
    while pending:
        folder, like = pending.pop()
        for entry in _entries(folder):
            target = like / entry.name
            if entry.name in _LEFT_OUT:
                continue
            if entry.is_dir(follow_symlinks=False) and entry.name not in _LINKED:
                target.mkdir()
                pending.append((Path(entry.path), target))
            else:
                copied += _link_or_copy(entry, target, private, copied < _COPIED_FILES)
    return scratch


def changed(own: Path, scratch: Path) -> Iterator[Path]:
    """Yield the paths in the folder at which its copy now differs; of a new folder nothing that lies in it."""
    pending = [(own, scratch)]
    while pending:
        folder, like = pending.pop()
        before = {entry.name: entry for entry in _entries(folder) if entry.name not in _LEFT_OUT}
        now = {entry.name: entry for entry in _entries(like)}
        yield from (folder / name for name in before.keys() ^ now.keys())
        for name in before.keys() & now.keys():
            if now[name].is_dir(follow_symlinks=False):
                pending.append((folder / name, like / name))
            elif not now[name].is_symlink() and _stamp(now[name].path) != _stamp(before[name].path):
                yield folder / name


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing if it must not be looked at."""
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        return list(found)
    return []


def _link(entry: os.DirEntry[str], target: Path, private: frozenset[Path]) -> None:
    """Link to what lies beside a folder of the way; folders in which something is private are made anew."""
    path = Path(entry.path)
    if not any(one == path or path in one.parents for one in private):
        target.symlink_to(path)
    elif entry.is_dir(follow_symlinks=False):
        target.mkdir()
        for inner in _entries(path):
            _link(inner, target / inner.name, private)
    else:
        _link_or_copy(entry, target, private, small_too=True)


def _link_or_copy(entry: os.DirEntry[str], target: Path, private: frozenset[Path], small_too: bool) -> bool:
    """Return whether a file was copied; what cannot be read is linked, so that the script finds it so."""
    with contextlib.suppress(OSError):
        if entry.is_symlink():
            target.symlink_to(Path(entry.path).readlink())
            return False
        if entry.is_file():
            size = entry.stat().st_size
            is_copied = Path(entry.path) in private or (small_too and size <= _COPIED_BYTES)
            if (is_copied or size > _COPIED_BYTES) and copy_file(Path(entry.path), target, clone_only=not is_copied):
                return True
    target.unlink(missing_ok=True)  # half of a copy
    target.symlink_to(entry.path)
    return False


def _stamp(path: str) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        status = Path(path).stat()
        return status.st_size, status.st_mtime_ns
    return None
