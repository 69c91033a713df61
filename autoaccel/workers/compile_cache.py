"""Where `autoaccel run` keeps what torch.compile has compiled, so that only the first of many runs pays for it."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from autoaccel.machine.user_folders import user_cache
from autoaccel.records.machine import Machine

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
"""Names the folder in which torch keeps all that it has compiled: graphs (its FX graph and AOTAutograd caches, both on
since 2.6), C++ and, unless TRITON_CACHE_DIR names another, Triton's code."""

_MIN_FREE_BYTES = 1 << 28  # a disk that fills up in the middle of a compilation ends the run


def open_compile_cache(machine: Machine, environ: Mapping[str, str] = os.environ) -> Path:
    """Return this user's folder for code compiled on this machine; make it if it does not exist.

    Torch's own keys distinguish models, settings and versions of torch, but not processors: they hold the compiler's
    `-march=native`, not what that means, and many kinds of machines may share a home folder.

    Raises:
        OSError: If it cannot be made, or torch could not write and lock files in it.
    """
    release = machine.torch.version.partition("+")[0] if machine.torch else "unknown"  # the build is not always told
    cpu = machine.cpu
    kind = "\n".join((machine.python, machine.architecture, cpu.model, cpu.revision, *cpu.features))
    digest = hashlib.sha256(kind.encode()).hexdigest()[:12]
    folder = user_cache(environ) / "autoaccel" / "compiled" / f"torch-{release}-{digest}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.geteuid():  # torch unpickles what it finds there
        raise PermissionError(errno.EPERM, "It belongs to another user", str(folder))
    if shutil.disk_usage(folder).free < _MIN_FREE_BYTES:
        raise OSError(errno.ENOSPC, "Its disk is nearly full", str(folder))
    with tempfile.TemporaryFile(dir=folder) as file:
        # Network file systems may know no locks, without which torch does not compile.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return folder
