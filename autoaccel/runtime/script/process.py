"""What a script may do to its process that would end its measurement as well: os._exit(), closing all descriptors.

Imports nothing but the standard library, as `entry` does.
"""

from __future__ import annotations

import errno
import os
import threading
from typing import NoReturn


def keep_process(descriptor: int) -> None:
    """Let os._exit() end the script as sys.exit() does, and let os.close() and os.closerange() spare a descriptor.

    The script may have to be run once more in this process. Those that it forks are their own.

    Args:
        descriptor: Of the way to the tuner.
    """
    process, end, close, close_range = os.getpid(), os._exit, os.close, os.closerange

    def ending(status: int = 0) -> NoReturn:
        if os.getpid() == process and threading.current_thread() is threading.main_thread():
            raise SystemExit(status)
        end(status)

    def closing(fd: int) -> None:
        if fd == descriptor and os.getpid() == process:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))  # nothing that the script knows of is open there
        close(fd)

    def closing_range(fd_low: int, fd_high: int) -> None:
        if fd_low <= descriptor < fd_high and os.getpid() == process:
            close_range(fd_low, descriptor)
            close_range(descriptor + 1, fd_high)
        else:
            close_range(fd_low, fd_high)

    os._exit, os.close, os.closerange = ending, closing, closing_range
