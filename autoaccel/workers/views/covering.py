"""Which folders of this computer an overlay can cover, so that all that a trial writes to them goes with it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

SYSTEM = ("/proc", "/sys", "/dev", "/run")
"""What lies here is no file of anybody's: devices, the kernel's own, sockets of services."""

_PSEUDO = frozenset(
    {"autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs"}
    | {"fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs"}
    | {"tracefs"}
)
"""File systems that hold no files, or, as autofs, only places where others appear."""


class Mount(NamedTuple):
    """A file system, or a part of one, and where it is seen."""

    place: str
    kind: str  # such as ext4
    is_read_only: bool


class Cover(NamedTuple):
    """What is laid over the computer's files."""

    stores: dict[str, str]  # folder that gets an overlay -> the one of the stores that keeps its files
    kept: tuple[str, ...]  # mounts within them that no overlay covers: they are seen as they are
    bare: tuple[str, ...]  # folders around them, in which files lie that no overlay covers


def mounts_of(text: str) -> tuple[Mount, ...]:
    """Return the mounts that a mountinfo lists (proc_pid_mountinfo(5)); of several at a place the one that is seen."""
    found: dict[str, Mount] = {}
    for line in text.splitlines():
        fields, _, more = line.partition(" - ")
        place, options = fields.split()[4:6]
        kind, _, of_file_system = more.split()[:3]
        read_only = "ro" in options.split(",") or "ro" in of_file_system.split(",")
        place = re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), place)
        found[place] = Mount(place, kind, read_only)
    return tuple(found.values())


def cover(mounts: Iterable[Mount], stores: Sequence[str], as_user: bool = False) -> Cover:
    """Return what overlays can cover.

    An overlay cannot cover the folder that keeps what is written to it, nor one above that: two such folders keep what
    is written above one another. "/" cannot be covered, as the process has it already: what is covered is in it.

    Args:
        mounts: All of this computer.
        stores: Folders that can keep what is written, real and absolute; the first does where it can.
        as_user: Whether this is done in a user namespace, in which no folder can be covered that has a mount within.
    """
    mounts = sorted(mounts, key=lambda mount: mount.place.rstrip("/").count("/"))
    places = {mount.place for mount in mounts}
    split = {str(above) for place in places for above in Path(place).parents} if as_user else {"/"}
    covered: dict[str, str] = {}
    kept: list[str] = []
    bare: list[str] = []
    for mount in mounts:
        if is_within(mount.place, SYSTEM):
            continue
        if mount.is_read_only or mount.kind in _PSEUDO or not _is_folder(mount.place):
            kept.append(mount.place)
            continue
        pending = [mount.place]
        while pending:
            folder = pending.pop()
            store = next((one for one in stores if folder not in split and not is_within(one, (folder,))), None)
            if store is not None:
                covered[folder] = store
            elif folder not in stores:
                bare.append(folder)
                pending += [inner for inner in _inner_folders(folder) if inner not in places]
    return Cover(covered, tuple(place for place in kept if is_within(place, covered)), tuple(bare))


def cover_own(covered: Cover, paths: Iterable[str], user: int, stores: Sequence[str]) -> Cover:
    """Return what an ordinary user's overlays cover: also what lies in folders of others above these paths.

    Within a user namespace, an overlay can make no copy of a folder of somebody else's, so it can keep nothing that is
    written below. The user's own folders in such a folder get overlays of their own.

    Args:
        covered: What is covered where the owner of a folder does not matter.
        paths: Those that matter, real and absolute.
        user: The number of the user.
        stores: See `cover`.
    """
    found = dict(covered.stores)
    for above in sorted({str(folder) for path in paths for folder in Path(path).parents}):
        if above not in found and is_within(above, found) and Path(above).stat().st_uid != user:
            for inner in _inner_folders(above):
                store = next((one for one in stores if not is_within(one, (inner,))), None)
                if store is not None and Path(inner).stat().st_uid == user:
                    found.setdefault(inner, store)
    return covered._replace(stores=found)


def _is_folder(path: str) -> bool:
    with contextlib.suppress(OSError):  # mounts of containers lie where an ordinary user must not look
        return Path(path).is_dir()
    return False


def _inner_folders(folder: str) -> list[str]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        inner = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        return sorted(path for path in inner if path not in SYSTEM)
    return []


def is_within(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of these folders or lies in one."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)
