"""Forbid this process, and all that it starts, to write anywhere but in some folders: Landlock, since Linux 5.13.

Imports nothing but the standard library: it acts in a process that becomes another program. Landlock knows nothing of
modes, owners and times of files; truncating is refused from Linux 6.2 on (version 3 of its interface).
Numbers are those of linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on all processors
_VERSION_ONLY, _PATH_BENEATH = 1, 1
_NO_NEW_PRIVILEGES = 38  # PR_SET_NO_NEW_PRIVS of linux/prctl.h
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_CHANGE_FOLDER = sum(1 << bit for bit in range(4, 13))  # remove and make entries of every kind


def landlock_version() -> int:
    """Return the version of the interface that the kernel has; 0 if it has none, or it is switched off."""
    version: int = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_ONLY))
    return max(0, version)


def forbid_writing_elsewhere(writable: Iterable[str]) -> None:
    """Let this process and all its children write nowhere but in these folders and files, for good.

    Args:
        writable: Those that are not there are passed over.

    Raises:
        OSError: If the kernel refuses.
    """
    libc, version = _libc(), landlock_version()
    handled = _WRITE_FILE | _CHANGE_FOLDER | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    attributes = ctypes.create_string_buffer(struct.pack("=Q", handled), 8)
    ruleset = _checked(libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(8), ctypes.c_uint32(0)))
    try:
        for path in writable:
            _allow(libc, ruleset, path, handled)
        _checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _checked(libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)))
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, handled: int) -> None:
    try:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(folder).st_mode)
        allowed = handled if is_folder else handled & (_WRITE_FILE | _TRUNCATE)
        rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, folder), 12)
        _checked(libc.syscall(_ADD_RULE, ruleset, ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0)))
    finally:
        os.close(folder)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc
