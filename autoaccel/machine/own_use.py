"""Keep measurements on this machine apart: those of one user wait for one another, those of others are told of."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import os
import stat
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath

import psutil

from autoaccel.machine.gpus import read_gpus
from autoaccel.machine.limits import read_limits
from autoaccel.machine.topology import read_logical_cpus
from autoaccel.machine.visible import visible_gpus

SIDE_BY_SIDE = "AUTOACCEL_SIDE_BY_SIDE"
"""A variable that a person sets where measurements are to run side by side, though each falsifies the other."""

_MEASURING = ("tune", "verify")  # commands
_FIRST_GPU = 1 << 20  # byte of the lock file; CPUs have those below
_FLOCK = {"linux": ("hhqqi4x", 4), "darwin": ("qqihh", 2)}.get(sys.platform)  # struct flock; the place of its l_pid


@contextlib.contextmanager
def machine_to_itself(say: Callable[[str], None]) -> Iterator[None]:
    """Have no other measurement of this user on the CPUs and GPUs of this process until the block ends.

    Waits until those that are there have ended. What ends a process, ends its claim.

    Args:
        say: Told, in a sentence, for whom this waits, and what else measures here.
    """
    for sentence in _others_sentences():
        say(sentence)
    descriptor = _open()
    if descriptor is None:
        say(f"{_folder()}: must be a folder that only this user can enter, so other measurements cannot be waited for")
        yield
        return
    try:
        places = _places()
        if not _claim(descriptor, places):
            who = _holder(descriptor, places)
            if os.environ.get(SIDE_BY_SIDE):
                say(f"{who} measures on the same CPUs or GPUs, and each falsifies what the other measures")
            else:
                say(
                    f"waiting for {who}, which measures on the same CPUs or GPUs. None of the budget is spent by that. "
                    f"To wait for nothing, give each CPUs of its own (taskset), or set {SIDE_BY_SIDE}=1"
                )
                _wait(descriptor, places)
        yield
    finally:
        os.close(descriptor)


def _folder() -> Path:
    # The same in every session of the user's: neither TMPDIR nor XDG_RUNTIME_DIR is.
    return Path("/tmp", f".autoaccel-{os.getuid()}")


def _open() -> int | None:
    """Return a descriptor of the user's lock file; None where another user could have put it there."""
    folder = _folder()
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
            return None
        return os.open(folder / "measuring", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None


def _places() -> list[int]:
    """Return the bytes of the lock file that stand for what this process may use, ascending.

    CPUs of one core share a byte: what runs on one of them slows the other.
    """
    root = Path("/")
    cpus = read_limits(root, read_logical_cpus(root)).cores
    gpus = read_gpus()
    shown = visible_gpus(gpus)
    names = [gpus[index].uuid or str(index) for index in (range(len(gpus)) if shown is None else shown)]
    return sorted({*(min(core) for core in cpus), *map(_gpu_place, names)})


def _gpu_place(name: str) -> int:
    return _FIRST_GPU + int.from_bytes(hashlib.sha256(name.encode()).digest()[:5], "big")


# Locks of the kind that belongs to a process (POSIX): no process that it starts inherits them.
def _claim(descriptor: int, places: Sequence[int]) -> bool:
    """Return whether nobody else had claimed any of it; else nothing is claimed."""
    try:
        for place in places:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except (BlockingIOError, PermissionError):
        fcntl.lockf(descriptor, fcntl.LOCK_UN)
        return False
    except OSError:  # the file system has no locks
        return True
    return True


def _wait(descriptor: int, places: Sequence[int]) -> None:
    """Claim all of it, one after the other: as all do so in the same order, nobody waits for somebody who waits."""
    for place in places:
        fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, place)


def _holder(descriptor: int, places: Sequence[int]) -> str:
    """Return who has claimed some of it."""
    if _FLOCK is None:
        return "another process"
    layout, place_of_pid = _FLOCK
    start, end = places[0], places[-1]
    fields = (fcntl.F_WRLCK, os.SEEK_SET, start, end - start + 1, 0)
    asked = fields if sys.platform == "linux" else (start, end - start + 1, 0, fcntl.F_WRLCK, os.SEEK_SET)
    try:
        answer = struct.unpack(layout, fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(layout, *asked)))
    except OSError:
        return "another process"
    pid = answer[place_of_pid]
    return f"process {pid}" if pid > 0 else "another process"  # 0: it runs in another container


def _others_sentences() -> list[str]:
    """Return a sentence for each measurement of another user that can be seen."""
    found = []
    for process in psutil.process_iter(["pid", "uids", "username", "cmdline"]):
        uids, line = process.info["uids"], process.info["cmdline"] or []
        if uids is not None and uids.real != os.getuid() and _measures(line):
            found.append(
                f"process {process.info['pid']} of {process.info['username']} measures on this machine, too, and each "
                "may falsify what the other measures"
            )
    return found


def _measures(line: Sequence[str]) -> bool:
    """Whether a command line is one of autoaccel that measures."""
    pairs = itertools.pairwise(line[:5])
    return any(PurePath(program).name == "autoaccel" and command in _MEASURING for program, command in pairs)
