"""Become another program that can make no namespace and mount nothing, as in most containers.

    without_namespaces.py PROGRAM ARGUMENT...

Imports nothing but the standard library. The system calls fail as they do there, by a filter of seccomp(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

_NUMBERS = {"x86_64": (0xC000003E, 272, 165), "aarch64": (0xC00000B7, 97, 40)}
"""By processor: its AUDIT_ARCH of linux/audit.h, and the numbers of unshare(2) and mount(2)."""

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2  # linux/prctl.h, linux/seccomp.h
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # linux/bpf_common.h
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO


def main() -> None:
    """Forbid both calls, and become the program that the arguments are."""
    architecture, unshare, mount = _NUMBERS[platform.machine()]
    filters = [
        (_LOAD, 0, 0, 4),  # the architecture
        (_JUMP_IF_EQUAL, 0, 3, architecture),
        (_LOAD, 0, 0, 0),  # the call's number
        (_JUMP_IF_EQUAL, 2, 0, unshare),
        (_JUMP_IF_EQUAL, 1, 0, mount),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _FAIL | errno.EPERM),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in filters))
    program = struct.pack("HxxxxxxP", len(filters), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(_SET_SECCOMP, _FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
