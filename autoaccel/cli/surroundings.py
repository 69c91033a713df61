"""What a command says where its surroundings fail it: a full disk, a closed pipe, a working folder that is gone."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path
from typing import NamedTuple

from autoaccel import text
from autoaccel.errors import BadRequestError

EXIT_NO_READER = 141
"""128 and the number of SIGPIPE: what shells say of a program whose reader is gone."""

_FREE = "Free some space there, or name another folder with --output"
_WRITABLE = "Make it writable, or name another place"
_ADVICE = {
    errno.ENOSPC: _FREE,
    errno.EDQUOT: _FREE,
    errno.EROFS: _WRITABLE,
    errno.EACCES: _WRITABLE,
    errno.EPERM: _WRITABLE,
    errno.ENAMETOOLONG: "Name something shorter",
    errno.ELOOP: "Name another file",
    errno.ENOTDIR: "Name another file",
    errno.E2BIG: "Name something shorter",
    errno.EMFILE: "Raise the limit of open files (ulimit -n)",
    errno.ENFILE: "Close other programs that hold many files open",
    errno.EAGAIN: "Raise the limit of processes (ulimit -u), or end others",
    errno.ENOMEM: "End other programs that hold memory",
    errno.EIO: "Look at that disk, or name another folder with --output",
    errno.ESTALE: "Look at that file server, or name another folder with --output",
}
"""What to do about errors of the surroundings; any other error of the system is one of ours."""


def open_standard_streams() -> None:
    """Open what was closed of stdin, stdout and stderr.

    Else the next file or socket that is opened gets the number of one, and whatever a child prints ends up in it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115  # to the end


def check_surroundings() -> None:
    """Refuse to work where every command would fail sooner or later.

    Raises:
        BadRequestError: If the working folder is gone, or Linux shows no /proc.
    """
    if _is_working_folder_gone():
        raise BadRequestError(_GONE)
    if sys.platform == "linux" and not Path("/proc/self/stat").exists():
        raise BadRequestError(
            "/proc is not mounted, and what this machine has and does is read there. Mount it: mount -t proc proc "
            "/proc."
        )


_GONE = "the working folder is gone. Change to another one, and give the command again."


def _is_working_folder_gone() -> bool:
    try:
        os.getcwd()  # noqa: PTH109  # Path.cwd() is this call
    except OSError:
        return True
    return False


class Surroundings(NamedTuple):
    """How the surroundings have failed a command."""

    words: str  # where, how, and what to do
    exit_code: int


def failed_surroundings(error: OSError) -> Surroundings | None:
    """Return how the surroundings have failed; None if the error is one of ours."""
    if isinstance(error, BrokenPipeError):
        return Surroundings("the reader of the output is gone, so the command has ended.", EXIT_NO_READER)
    words = _words_of(error)
    return None if words is None else Surroundings(words, BadRequestError.exit_code)


def _words_of(error: OSError) -> str | None:
    if error.errno == errno.ENOENT and _is_working_folder_gone():
        return _GONE
    said = error.strerror or str(error)
    if error.errno == errno.ENOENT and "temporary directory" in said:  # as tempfile has it
        return f"{said}. Set TMPDIR to a folder that can be written to."
    advice = _ADVICE.get(error.errno or 0)
    if advice is None:
        return None
    if not isinstance(error.filename, (str, bytes, os.PathLike)):
        what = f"the output cannot be written: {said.lower()}" if advice in (_FREE, _WRITABLE) else said
        return f"{what}. {advice}." if what == said else f"{what}."
    named = os.fsdecode(error.filename)
    where = named if len(named) <= _MAX_SHOWN else f"{named[:_MAX_SHOWN]}... ({len(named):,} characters)"
    return f"{where}: {said.lower()}. {advice}."


_MAX_SHOWN = 200  # characters of a path


def say(words: str) -> None:
    """Print an error; where stderr cannot be written to, nobody can be told."""
    with contextlib.suppress(OSError):
        text.say(f"autoaccel: {words}", to_stderr=True)


def drop_output() -> None:
    """Let go of what stdout and stderr hold and cannot write: Python would complain once more at exit."""
    with contextlib.suppress(OSError), Path(os.devnull).open("wb") as nowhere:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                os.dup2(nowhere.fileno(), stream.fileno())
