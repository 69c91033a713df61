"""Which folders overlays cover: all that hold anybody's files, but for the one that keeps what is written."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from autoaccel.workers.views.covering import Cover, Mount, cover, cover_own, mounts_of

MOUNTINFO = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
28 27 8:1 / /data\\040sets ro,relatime - xfs /dev/sdb rw
29 27 8:1 / /old rw,relatime - xfs /dev/sdb rw
30 29 8:2 / /old rw,relatime - nfs4 server:/x ro
"""


def test_mounts_are_read_as_the_kernel_writes_them() -> None:
    assert mounts_of(MOUNTINFO) == (
        Mount("/proc", "proc", False),
        Mount("/", "ext4", False),
        Mount("/data sets", "xfs", True),
        Mount("/old", "nfs4", True),  # the one on top is seen
    )


def test_everything_is_covered_but_what_keeps_the_writes(tmp_path: Path) -> None:
    for name in ("home/me", "home/other", "fast/store", "fast/beside", "disk/inner", "disk/frozen"):
        (tmp_path / name).mkdir(parents=True)
    root = str(tmp_path)
    mounts = [
        Mount(root, "ext4", False),
        Mount(f"{root}/disk", "xfs", False),
        Mount(f"{root}/disk/inner", "nfs4", False),
        Mount(f"{root}/disk/frozen", "squashfs", True),
        Mount(f"{root}/home/other", "cgroup2", False),
    ]
    found = cover(mounts, [f"{root}/fast/store"])
    assert set(found.stores) == {f"{root}/home", f"{root}/fast/beside", f"{root}/disk", f"{root}/disk/inner"}
    assert set(found.kept) == {f"{root}/disk/frozen", f"{root}/home/other"}
    assert set(found.bare) == {root, f"{root}/fast"}


def test_of_two_stores_each_keeps_what_is_written_above_the_other(tmp_path: Path) -> None:
    for name in ("one/store", "two/store", "home"):
        (tmp_path / name).mkdir(parents=True)
    root = str(tmp_path)
    found = cover([Mount(root, "ext4", False)], [f"{root}/one/store", f"{root}/two/store"])
    assert found.stores == {
        f"{root}/home": f"{root}/one/store",
        f"{root}/two": f"{root}/one/store",
        f"{root}/one": f"{root}/two/store",
    }
    assert found.bare == (root,)


def test_in_a_user_namespace_a_folder_with_a_mount_within_is_not_covered(tmp_path: Path) -> None:
    for name in ("home/me/code", "home/me/data", "store", "other"):
        (tmp_path / name).mkdir(parents=True)
    root = str(tmp_path)
    mounts = [Mount(root, "ext4", False), Mount(f"{root}/home/me/data", "nfs4", False)]
    found = cover(mounts, [f"{root}/store"], as_user=True)
    assert set(found.stores) == {f"{root}/home/me/code", f"{root}/home/me/data", f"{root}/other"}
    assert set(found.bare) == {root, f"{root}/home", f"{root}/home/me"}


def test_a_users_folders_within_those_of_others_are_covered_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("shared/mine/code", "shared/mine/data", "shared/theirs", "store"):
        (tmp_path / "disk" / name).mkdir(parents=True)
    root = str(tmp_path / "disk")
    owner = Path.stat

    def owned(path: Path, **kinds: bool) -> SimpleNamespace:
        own = owner(path, **kinds)
        return SimpleNamespace(st_uid=7 if "mine" in path.parts else 0, st_mode=own.st_mode)

    covered = Cover({root: "/store", f"{tmp_path}": "/store"}, (), ())
    monkeypatch.setattr(Path, "stat", owned)
    found = cover_own(covered, [f"{root}/shared/mine/code"], 7, ["/store"])
    assert set(found.stores) - set(covered.stores) == {f"{root}/shared/mine"}


def test_mounts_where_this_user_must_not_look_are_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    hidden, is_dir, scandir = str(tmp_path / "hidden"), Path.is_dir, os.scandir

    def looked_at(path: Path) -> bool:
        if str(path).startswith(hidden):
            raise PermissionError(13, "Permission denied", str(path))
        return is_dir(path)

    def listed(path: str) -> object:
        if str(path).startswith(hidden):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    (tmp_path / "hidden").mkdir()
    monkeypatch.setattr(Path, "is_dir", looked_at)
    monkeypatch.setattr(os, "scandir", listed)
    mounts = [Mount(str(tmp_path), "ext4", False), Mount(f"{hidden}/merged", "overlay", False)]
    found = cover(mounts, ["/none"], as_user=True)
    assert set(found.stores) == {f"{tmp_path}/home"}
