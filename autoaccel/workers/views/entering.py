"""The program by which a trial enters its view of the user's files: it prepares itself, then becomes the trial.

Imports nothing but the standard library: it runs before everything else, in every trial.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autoaccel.workers.views.landlock import forbid_writing_elsewhere, landlock_version

_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000  # CLONE_NEWNS, CLONE_NEWUSER of linux/sched.h
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 1 << 18  # MS_... of linux/mount.h
_AS_ROOT = ("redirect_dir=on", "")  # lets folders be renamed; some kernels are built without it
_AS_USER = ("userxattr",)

REFUSED = 97
"""Exit code of a program that could not enter its view; its last line says why."""


def enter(plan: dict[str, Any]) -> dict[str, str]:
    """Let this process see the user's files as they are, and write to them without changing them.

    Args:
        plan: `stores`: folders that an overlay covers each, and an empty folder that keeps its files. `needed`: those
            without which there is no view. `kept`: mounts and folders within them that are seen as they are.
            `as_user`: whether this needs a user namespace. `guard`: whether to forbid writing elsewhere, where the
            kernel can. `writable`: where else may be written. `tell`: whether to print what is not covered.

    Returns:
        Folders that are not covered, with the reason.

    Raises:
        OSError: If there can be no such view.
    """
    folder = os.path.realpath(".")
    uncovered: dict[str, str] = {}
    writable = list(plan["writable"])
    if plan["stores"]:
        uncovered = _lay_over(plan)
        writable += [path for path in (*plan["stores"], *plan["kept"]) if path not in uncovered]
        os.chdir(folder)  # the way into it leads through the overlays now
    if plan["guard"] and landlock_version():
        forbid_writing_elsewhere(writable)
    return uncovered


def _lay_over(plan: dict[str, Any]) -> dict[str, str]:
    """Lay an overlay over each folder, in a namespace of this process; see `enter`."""
    _leave_namespaces(plan["as_user"])
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)
    # Opened before any of them is hidden, but in this namespace: what is of another cannot be mounted.
    layers = {path: _layers(path, store) for path, store in plan["stores"].items()}
    layers |= {path: (_open(path),) for path in plan["kept"] if os.path.lexists(path)}
    uncovered: dict[str, str] = {}
    for path in sorted(layers, key=lambda path: path.count("/")):
        below, *rest = layers[path]
        if not rest:
            _mount(f"/proc/self/fd/{below}", path, None, _BIND | _RECURSIVE)
            continue
        try:
            _mount_overlay(path, layers[path], _AS_USER if plan["as_user"] else _AS_ROOT)
        except OSError as error:
            if path in plan["needed"]:
                raise
            uncovered[path] = str(error.strerror)
            _mount(f"/proc/self/fd/{below}", path, None, _BIND | _RECURSIVE)
    return uncovered


def _layers(path: str, store: str) -> tuple[int, ...]:
    """Return descriptors of a folder, of what will be written to it, and of a folder that the kernel needs for that."""
    for name in ("written", "work"):
        Path(store, name).mkdir()
    below = _open(path)
    # The folder is seen with the mode and owner of the one that is written to.
    own = os.fstat(below)
    mode = own.st_mode & 0o7777
    try:
        os.chown(f"{store}/written", own.st_uid, own.st_gid)
    except OSError:  # it is somebody else's: let its owner, who is this user now, do what this user may
        rights = sum(right for right in (os.R_OK, os.W_OK, os.X_OK) if os.access(path, right))
        mode = mode & ~0o700 | rights << 6
    Path(store, "written").chmod(mode)
    return below, _open(f"{store}/written"), _open(f"{store}/work")


def _mount_overlay(path: str, layers: Sequence[int], variants: Sequence[str]) -> None:
    # Descriptors instead of paths: in these options, commas and colons would have to be quoted.
    names = ("lowerdir", "upperdir", "workdir")
    options = [f"{name}=/proc/self/fd/{layer}" for name, layer in zip(names, layers, strict=True)]
    for variant in variants:
        try:
            _mount("overlay", path, "overlay", 0, ",".join(filter(None, [*options, variant])))
            return
        except OSError:
            if variant == variants[-1]:
                raise


def _open(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _leave_namespaces(as_user: bool) -> None:
    """Leave the mount namespace; an ordinary user may do so within a user namespace of their own."""
    if not as_user:
        _unshare(_NEW_MOUNTS)
        return
    user, group = os.geteuid(), os.getegid()
    if user == 0 and _unshare_as_root():
        return
    _unshare(_NEW_USER | _NEW_MOUNTS)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")


def _unshare_as_root() -> bool:
    """Leave them with the owners of all files kept, which only a process outside of the namespace can arrange.

    Returns:
        Whether that process could. If not, nothing has changed.
    """
    maps = {}
    for name in ("uid_map", "gid_map"):
        lines = [line.split() for line in Path(f"/proc/self/{name}").read_text(encoding="ascii").splitlines()]
        maps[name] = "\n".join(f"{inner} {inner} {count}" for inner, _, count in lines)
    told, tell = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.read(told, 1)
        try:
            for name, text in maps.items():
                _write(f"/proc/{parent}/{name}", text)
        except OSError:
            os._exit(1)
        os._exit(0)
    try:
        _unshare(_NEW_USER | _NEW_MOUNTS)
    finally:
        os.write(tell, b"1")
        _, status = os.waitpid(child, 0)
        os.close(told)
        os.close(tell)
    if status:
        raise OSError(1, "a user namespace cannot keep the owners of files here")
    return True


def _write(path: str, text: str) -> None:
    Path(path).write_text(text, encoding="ascii")


def _unshare(flags: int) -> None:
    if _LIBC.unshare(flags):
        _raise("no namespace of its own")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    if _LIBC.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]):
        _raise(f"{target} cannot be covered")


def _raise(what: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what} ({os.strerror(number)})")


_LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Enter the view of the first argument, then become the program that the others are."""
    try:
        plan = json.loads(sys.argv[1])
        uncovered = enter(plan)
        if plan["tell"]:
            print(json.dumps(uncovered), flush=True)
    except OSError as error:
        print(f"autoaccel: there is no view of your files here: {error.strerror}", file=sys.stderr)
        sys.exit(REFUSED)
    os.execv(sys.argv[2], sys.argv[2:])
