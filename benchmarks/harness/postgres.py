"""A PostgreSQL server of one's own in a temporary folder, as Debian's package `postgresql` brings it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def find_postgres() -> Path | None:
    """Return the folder of the newest server's programs; None if none is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parents[1].name))
    return found[-1].parent if found else None


@contextmanager
def running_postgres(programs: Path) -> Iterator[str]:
    """Yield the URL of an empty database; it is gone when the block ends. Only this machine's processes reach it."""
    # The server refuses to run as root.
    who: dict[str, Any] = {"user": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="autoaccel-postgres-", dir="/tmp"))
    try:
        if who:
            shutil.chown(folder, who["user"])
        folder.chmod(0o755)  # for the socket, which others connect to
        data = folder / "data"
        run = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **who}
        subprocess.run([programs / "initdb", "-D", data, "-U", "tuner", "--auth=trust", "--no-sync"], **run)
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        subprocess.run([programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start"], **run)
        try:
            yield f"postgresql://tuner@/postgres?host={folder}"
        finally:
            subprocess.run([programs / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop"], **run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
