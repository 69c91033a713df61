"""What a script may do to its process, which has more to do after it: leave at once, close everything, limit itself.

Imports nothing but the standard library, as `entry` does.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import faulthandler
import io
import os
import resource
import signal
import sys
import threading
from typing import NoReturn, TextIO

from autoaccel.runtime.script.entry import hiding, without_ours
from autoaccel.runtime.streams import end_process, flush_streams

_KEPT: set[int] = set()  # descriptors that a script cannot close


def keep_process(descriptor: int) -> None:
    """Let os._exit() end the script as sys.exit() does, and let os.close() and os.closerange() spare what is ours.

    The script may have to be run once more in this process. Those that it forks are their own.

    Args:
        descriptor: Of the way to the tuner.
    """
    _KEPT.add(descriptor)
    process, end, close, close_range = os.getpid(), os._exit, os.close, os.closerange

    def ending(status: int = 0) -> NoReturn:
        if os.getpid() == process and threading.current_thread() is threading.main_thread():
            raise SystemExit(status)
        end(status)

    def closing(fd: int) -> None:
        if fd in _KEPT and os.getpid() == process:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))  # nothing that the script knows of is open there
        close(fd)

    def closing_range(fd_low: int, fd_high: int) -> None:
        if os.getpid() == process:
            for kept in sorted(fd for fd in _KEPT if fd_low <= fd < fd_high):
                close_range(fd_low, kept)
                fd_low = kept + 1
        close_range(fd_low, fd_high)

    os._exit, os.close, os.closerange = ending, closing, closing_range


def end_forked(end: BaseException | None) -> NoReturn:
    """End a process that the script has forked, as Python does where a program ends.

    But for its finalization, which waits for threads of torch's that no fork takes along.

    Args:
        end: What the script has raised there, if anything.
    """
    code: object = 0
    if isinstance(end, SystemExit):
        code = 0 if end.code is None else end.code
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    elif end is not None:
        error = without_ours(end)
        hiding(sys.excepthook)(type(error), error, error.__traceback__)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for its threads, as multiprocessing has it
    atexit._run_exitfuncs()
    flush_streams()
    end_process(code if isinstance(code, int) else 1)


class ProcessState:
    """What of its process a script finds, and is to find again when it is run once more."""

    def __init__(self) -> None:
        """Take it from the process as it is now."""
        self._handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
        self._limits = {number: resource.getrlimit(number) for number in _LIMITS}
        self._mask = os.umask(0)
        os.umask(self._mask)
        self._recursion = sys.getrecursionlimit()
        self._streams: tuple[TextIO, TextIO] = (sys.stdout, sys.stderr)
        self._descriptors = (os.dup(1), os.dup(2))
        _KEPT.update(self._descriptors)

    def put_back(self) -> None:
        """Make the process so again."""
        sys.stdout, sys.stderr = (self._opened(number) for number in (0, 1))
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.set_wakeup_fd(-1)
        for number, handler in self._handlers.items():
            if handler is not None and signal.getsignal(number) != handler:
                signal.signal(number, handler)
                if number == signal.SIGUSR1:
                    faulthandler.register(signal.SIGUSR1)  # the tuner asks where a hung process is
        for number, (soft, _) in self._limits.items():
            hard = resource.getrlimit(number)[1]
            with contextlib.suppress(ValueError):  # the hard limit is lower now
                resource.setrlimit(number, (soft, hard))
        os.umask(self._mask)
        sys.setrecursionlimit(self._recursion)

    def _opened(self, number: int) -> TextIO:
        os.dup2(self._descriptors[number], number + 1)
        stream = self._streams[number]
        if not stream.closed:
            return stream
        return io.TextIOWrapper(open(number + 1, "wb", 0, closefd=False), write_through=True)  # to the end


_LIMITED = ("AS", "CPU", "DATA", "FSIZE", "NOFILE", "NPROC", "STACK")
_LIMITS = tuple(getattr(resource, f"RLIMIT_{what}") for what in _LIMITED if hasattr(resource, f"RLIMIT_{what}"))
