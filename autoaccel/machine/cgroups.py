"""The limits that Linux control groups set: CPU time and memory, version 1, version 2, or some of each.

Sources: cgroups(7), proc_pid_mountinfo(5), and the kernel's admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from autoaccel.machine.kernel_files import read_integer, read_text

# Version 1 writes "unlimited" as the largest multiple of a page that fits in 63 bits, so the number depends on the
# page size; no computer has this much memory (1 EiB).
_UNLIMITED_BYTES = 2**60


class Hierarchy(NamedTuple):
    """Where the files of one controller lie: the process's own group first, then its parents up to the mount."""

    version: int
    folders: tuple[Path, ...]


class _Mount(NamedTuple):
    version: int
    group: str  # the group that is mounted here; "/" unless a container sees a part only
    point: str
    controllers: frozenset[str]  # of version 1


def find_hierarchy(root: Path, controller: str) -> Hierarchy | None:
    """Return where the limits of "cpu" or "memory" are, or None if no control group can be seen.

    A controller belongs to one version at a time: to version 1 if that has it mounted, else to version 2.
    """
    groups = _own_groups(root)
    mounts = _mounts(root)
    own = [mount for mount in mounts if controller in mount.controllers]
    group = groups.get(controller)
    if not own or group is None:
        own = [mount for mount in mounts if mount.version == 2]
        group = groups.get("")
    if not own or group is None:
        return None
    for mount in own:
        below = _relative_to(group, mount.group)
        if below is not None:
            return Hierarchy(mount.version, _folders(root, mount, below))
    # In a container the group's path may be the host's, which means nothing here: what is mounted is our own group.
    return Hierarchy(own[0].version, _folders(root, own[0], PurePosixPath()))


def cpu_quota(hierarchy: Hierarchy) -> float | None:
    """Return CPUs' worth of time per second, the smallest quota of the group and its parents; None: unlimited."""
    quotas = []
    for folder in hierarchy.folders:
        if hierarchy.version == 2:
            quota, _, period = (read_text(folder / "cpu.max") or "").partition(" ")
        else:
            quota, period = (read_text(folder / name) or "" for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
        # Unlimited is "max" in version 2 and -1 in version 1: neither is decimal.
        if quota.isdecimal() and period.isdecimal():
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_limit_bytes(hierarchy: Hierarchy) -> int | None:
    """Return the smallest memory limit of the group and its parents in bytes; None: unlimited."""
    name = "memory.max" if hierarchy.version == 2 else "memory.limit_in_bytes"
    limits = (read_integer(folder / name) for folder in hierarchy.folders)
    return min((limit for limit in limits if limit is not None and limit < _UNLIMITED_BYTES), default=None)


def _own_groups(root: Path) -> dict[str, str]:
    """Return this process's group by controller of version 1; under "" that of version 2."""
    groups: dict[str, str] = {}
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", maxsplit=2)
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def _mounts(root: Path) -> list[_Mount]:
    mounts = []
    for line in (read_text(root / "proc/self/mountinfo") or "").splitlines():
        place, _, source = line.partition(" - ")
        kind, options = source.split()[0], source.split()[-1]
        if kind in ("cgroup", "cgroup2"):
            group, point = (_unescape(text) for text in place.split()[3:5])
            controllers = frozenset(options.split(",")) if kind == "cgroup" else frozenset[str]()
            mounts.append(_Mount(1 if kind == "cgroup" else 2, group, point, controllers))
    return mounts


def _unescape(text: str) -> str:
    """Return a path of mountinfo, where white space and backslashes stand as octal numbers (`\\040`)."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _relative_to(group: str, mounted: str) -> PurePosixPath | None:
    """Return the group's path below the mounted one, or None if it does not lie there."""
    path = PurePosixPath(group)
    # A group outside of the process's cgroup namespace is told as /../other.
    if ".." in path.parts or not path.is_relative_to(mounted):
        return None
    return path.relative_to(mounted)


def _folders(root: Path, mount: _Mount, below: PurePosixPath) -> tuple[Path, ...]:
    point = root / mount.point.lstrip("/")
    return tuple(point / part for part in (below, *below.parents))
