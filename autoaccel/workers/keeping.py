"""The keeper of a process: the small process above it that ends all that came of it, whatever becomes of the tuner.

On Linux a keeper adopts what its descendants leave behind: a daemon, a server that was forked twice, the ranks of a
launcher that died. So nothing escapes it, and nobody need know whose a process was. It imports the standard library
alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36

_CLEANERS = (b"resource_tracker", b"torch_shm_manager")
"""In the command lines of helpers that remove what others have put into shared memory, once these have ended: those of
multiprocessing, joblib and torch. They alone know its names."""

_CLEANING_SECONDS = 1.0  # for these helpers to end by themselves
_LOOK_SECONDS = 0.005  # between looks whether what was killed has ended

_MAX_LOG_BYTES = 8 << 20  # of what is printed, before its end alone is kept
_KEPT_LOG_BYTES = 1 << 20
_LOG_MILLISECONDS = 500  # between looks at a log
_TRIES_TO_SHORTEN = 20  # of a log to which more is printed meanwhile than is kept
_FULL_LOG_MILLISECONDS = 20  # where it was full at the last one: a gigabyte a second can be printed

_SHARED_MEMORY = Path("/dev/shm")
_NAMED_AFTER_PROCESS = re.compile(r"(?:torch_|__KMP_REGISTERED_LIB_)(\d+)_")
"""Names of shared memory that no helper removes: of torch's tensors amid their making, of Intel's OpenMP runtime. They
hold the number of the process."""


def keep(control: int, parent: int, adopts: bool, log: int | None = None) -> None:
    """Return in a new process, in a group of its own; this one becomes its keeper, and does not return.

    The keeper writes the number of the new process to the tuner, then its exit code, negative if a signal ended it, a
    line each. When the tuner closes its end, or is gone, the keeper kills all that is left, and ends. Should somebody
    kill the keeper, the kernel kills the process.

    Args:
        control: Descriptor of the socket to the tuner.
        parent: The process that has started this one, and lives as long as the tuner.
        adopts: Whether what the process leaves behind, such as a daemon, ends with it.
        log: Descriptor of the log that the process prints to, open for appending; only its end is kept. None: it prints
            to what is the user's.
    """
    keeper = os.getpid()
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, int(adopts))
        # Not SIGKILL, after which nobody would end the others. A stopped keeper goes on, and sees that it is alone.
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)
    process = os.fork()
    if process:
        _keep(process, control, parent, log)
    os.close(control)
    os.setpgid(0, 0)
    if sys.platform == "linux":
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:  # it died before it could be watched
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Become the keeper of a process that goes on here; see `keep`, whose arguments are the first four.

    The last of them says whether stdout is a log.
    """
    control, parent, adopts, logged = sys.argv[1:5]
    del sys.argv[1:5]
    keep(int(control), int(parent), adopts == "True", 1 if logged == "True" else None)


def _keep(process: int, control: int, parent: int, log: int | None) -> NoReturn:
    try:
        with contextlib.suppress(OSError):  # the process itself has done it first
            os.setpgid(process, process)
        _Keeper(process, control, log).watch(parent)
    finally:
        os._exit(0)


class _Keeper:
    """What a keeper does once its process is there."""

    def __init__(self, process: int, control: int, log: int | None) -> None:
        self._process = process
        self._control = control
        self._log = None if log is None else _opened_to_overwrite(log)
        self._ended: set[int] = set()
        self._began = time.time()

    def watch(self, parent: int) -> None:
        """Tell how the process ends; end all that is left when nobody wants it any more."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)  # meant for the process, or for the tuner
        self._let_go()
        woken, wake = os.pipe()
        for end in (woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGCONT):
            signal.signal(number, lambda number, frame: None)
        self._tell(self._process)
        news = select.poll()
        news.register(self._control, select.POLLIN)
        news.register(woken, select.POLLIN)
        while os.getppid() == parent:
            self._reap()
            if any(channel == self._control for channel, _ in news.poll(self._trim_log())):
                break
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
        self._end_all()

    def _let_go(self) -> None:
        """Close all descriptors of the process: the end of a channel tells that it died."""
        begin = 0
        for kept in sorted({self._control, self._control if self._log is None else self._log}):
            os.closerange(begin, kept)
            begin = kept + 1
        os.closerange(begin, os.sysconf("SC_OPEN_MAX"))
        for _ in range(3):  # stdin, stdout, stderr
            os.open(os.devnull, os.O_RDWR)

    def _tell(self, number: int) -> None:
        with contextlib.suppress(OSError):  # the tuner is gone
            os.write(self._control, b"%d\n" % number)

    def _trim_log(self) -> int | None:
        """Keep the end of a log that is full; return after how many milliseconds to look again, None for never."""
        if self._log is None:
            return None
        with contextlib.suppress(OSError):  # a full disk
            size = os.fstat(self._log).st_size
            if size > _MAX_LOG_BYTES:
                _shorten(self._log)
                return _FULL_LOG_MILLISECONDS
        return _LOG_MILLISECONDS

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):  # there is none
            while True:
                ended, status = os.waitpid(-1, os.WNOHANG)
                if not ended:
                    return
                self._ended.add(ended)
                if ended == self._process:
                    self._tell(os.waitstatus_to_exitcode(status))

    def _end_all(self) -> None:
        """Kill all that is left, until nothing is, and remove what it can no longer remove itself."""
        patience = 0.0  # until when helpers that clean up may go on
        while True:
            self._reap()
            family = _descendants(os.getpid())
            if not family and self._process not in self._ended:
                family = [-self._process]  # its group, where the system does not tell more
            if not family:
                break
            others = [process for process in family if not _cleans_up(process)]
            if not others and not patience:
                patience = time.monotonic() + _CLEANING_SECONDS
                _signal(family, signal.SIGCONT)  # they were stopped with the others
            if others or time.monotonic() > patience:
                self._ended.update(family)
                _signal(others or family, signal.SIGKILL)
            time.sleep(_LOOK_SECONDS)
        _remove_shared_memory(self._ended, self._began)


def _opened_to_overwrite(log: int) -> int | None:
    """Return another descriptor of a file that is open for appending; None where the system has none to give."""
    with contextlib.suppress(OSError):
        return os.open(f"/dev/fd/{log}", os.O_RDWR)
    return None


def _shorten(log: int) -> None:
    """Keep the end of a file that others append to.

    It is written over the beginning first, and cut off then: whoever prints meanwhile comes neither first nor between,
    and what was printed until the cut is taken along.
    """
    kept = 0
    for _ in range(_TRIES_TO_SHORTEN):
        seen = os.fstat(log).st_size - _KEPT_LOG_BYTES
        kept = os.pwrite(log, b"[%d bytes omitted]\n" % seen, 0)
        while kept < 2 * _KEPT_LOG_BYTES:
            printed = os.pread(log, _KEPT_LOG_BYTES, seen)
            if not printed:
                os.ftruncate(log, kept)
                return
            os.pwrite(log, printed, kept)
            kept, seen = kept + len(printed), seen + len(printed)
    os.ftruncate(log, kept)


def _descendants(process: int) -> list[int]:
    """Return the processes below one, those above first."""
    if not Path("/proc/thread-self/children").exists():
        return _descendants_elsewhere(process)
    found: list[int] = []
    with contextlib.suppress(OSError):  # it has just ended
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *_descendants(child)]
    return found


def _descendants_elsewhere(process: int) -> list[int]:
    """Return them where the system has no such files."""
    import psutil

    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(process).children(recursive=True)]
    return []


def _cleans_up(process: int) -> bool:
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{process}/cmdline").read_bytes()
        return any(name in command for name in _CLEANERS)
    return False


def _signal(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(OSError):  # it has ended
            os.kill(process, number)


def _remove_shared_memory(ended: set[int], began: float) -> None:
    """Remove this user's shared memory named after processes that have ended, made since the keeper began."""
    with contextlib.suppress(OSError):  # there is no such folder
        for path in _SHARED_MEMORY.iterdir():
            named = _NAMED_AFTER_PROCESS.match(path.name)
            if named is None or int(named[1]) not in ended:
                continue
            with contextlib.suppress(OSError):
                found = path.lstat()
                if found.st_uid == os.geteuid() and found.st_ctime >= began - 1:
                    path.unlink()
