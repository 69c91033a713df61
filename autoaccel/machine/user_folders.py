"""Where a user's own files lie."""

from __future__ import annotations

import errno
import os
import pwd
import sys
from collections.abc import Mapping
from pathlib import Path


def user_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the user's folder for caches, by the XDG Base Directory Specification or by macOS's convention.

    Raises:
        OSError: If the user has no home.
    """
    named = Path(environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():  # the specification: any other is to be ignored
        return named
    home = environ.get("HOME") or _home_of_record()
    return Path(home, "Library/Caches" if sys.platform == "darwin" else ".cache")


def _home_of_record() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a container may run under any number
        raise FileNotFoundError(errno.ENOENT, "HOME is not set, and this user has no home folder") from None
