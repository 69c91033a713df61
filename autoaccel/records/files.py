"""Read a file that anybody may have written: a regular one, no larger than what it is to be, in UTF-8.

No msgspec: what a script's own process reads comes through here, too.
"""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from autoaccel.errors import BadRequestError
from autoaccel.units import excerpt, format_bytes

MAX_RECORD_BYTES = 4 << 20
"""Of a file that holds one record, and of a line that does. Recipes and the records of runs take 20 to 300 KB."""

MAX_LINES_BYTES = 1 << 30
"""Of a file of one record a line: 10,000 trials of a whole hour take a tenth of it."""

MAX_TEXT_BYTES = 1 << 20
"""Of what people write by hand, such as a search space: a thousand times what the longest of ours takes."""

MAX_SOURCE_BYTES = 16 << 20
"""Of Python source that is parsed, which takes a hundred times its size. The longest known files have 1 MB."""

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def check_output(option: str, path: Path) -> None:
    """Refuse a file that could not be written where somebody wants it, which would be told hours later.

    Raises:
        BadRequestError: If there is no such folder, or a folder in its place.
    """
    if not is_there(path.absolute().parent):
        raise BadRequestError(f"{option} {_shown(path)}: its folder does not exist.")
    if path.is_dir():
        raise BadRequestError(f"{option} {_shown(path)}: must be a file, but it is a folder. Name another.")


def is_there(path: Path) -> bool:
    """Whether there is something of this name, of whatever kind; also for names that no file can have."""
    return _mode(path) is not None


def is_regular(path: Path) -> bool:
    """Whether there is a regular file of this name; also for names that no file can have."""
    mode = _mode(path)
    return mode is not None and stat.S_ISREG(mode)


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return None


def read_file(path: Path, what: str, max_bytes: int = MAX_RECORD_BYTES) -> bytes:
    """Return all that is in a file.

    Args:
        path: Of the file.
        what: Names it in errors, such as "a recipe".
        max_bytes: That it may have.

    Raises:
        BadRequestError: If it is missing, unreadable, no regular file, or larger.
    """
    with _opened(path, what, max_bytes) as file:
        try:
            data = file.read(max_bytes + 1)
        except OSError as error:
            raise _unreadable(path, what, error) from error
    if len(data) > max_bytes:  # it grew, or is one of /proc, which tells no size
        raise _too_large(path, what, max_bytes)
    return data


def read_text(path: Path, what: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Return the text in a file, as `read_file` does.

    Raises:
        BadRequestError: As `read_file` does, and if it is not UTF-8.
    """
    try:
        return read_file(path, what, max_bytes).decode()
    except UnicodeDecodeError as error:
        raise BadRequestError(
            f"{_shown(path)}: cannot be read as text: byte {error.start} is not UTF-8. Name the file of {what}."
        ) from error


def parse_source(path: Path, what: str) -> ast.Module:
    """Return the syntax tree of a file of Python source.

    Raises:
        BadRequestError: As `read_file` does.
        SyntaxError: If it is no Python, or nested more deeply than Python can parse.
    """
    try:
        return ast.parse(read_file(path, what, MAX_SOURCE_BYTES))
    except ValueError as error:  # a zero byte
        raise SyntaxError(str(error)) from error
    except (RecursionError, MemoryError) as error:
        raise SyntaxError("it is nested too deeply") from error


def read_lines(path: Path, what: str) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each line, from 1, and the line without its end; a last one that has none was cut off.

    Args:
        path: Of a file of one record a line.
        what: Names such a record in errors, such as "a trial".

    Raises:
        BadRequestError: As `read_file` does, and if a line is longer than a record may be.
    """
    with _opened(path, what, MAX_LINES_BYTES) as file:
        number = 0
        while line := file.readline(MAX_RECORD_BYTES + 1):
            number += 1
            if len(line) > MAX_RECORD_BYTES:
                raise _too_large(Path(f"{path}:{number}"), what, MAX_RECORD_BYTES)
            if line.endswith(b"\n"):
                yield number, line[:-1]


def drop_cut_off_line(path: Path) -> None:
    """Remove from a file what follows the last line that has an end: it was cut off by a crash."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
    if size > (whole := _whole_lines_end(path)):
        os.truncate(path, whole)


def _whole_lines_end(path: Path) -> int:
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - (1 << 16))
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


def _opened(path: Path, what: str, max_bytes: int) -> BinaryIO:
    """Return a regular file that is open; opening a pipe to look at it waits for nobody.

    Raises:
        BadRequestError: If there is no such file, or it is too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise _unreadable(path, what, error) from error
    file = os.fdopen(descriptor, "rb", closefd=True) if _is_regular(descriptor) else None
    if file is None:
        kind = _kind(os.fstat(descriptor).st_mode)
        os.close(descriptor)
        raise BadRequestError(f"{_shown(path)}: must be a regular file, but it is {kind}. Name the file of {what}.")
    if os.fstat(descriptor).st_size > max_bytes:
        file.close()
        raise _too_large(path, what, max_bytes)
    return file


def _is_regular(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def _kind(mode: int) -> str:
    return next((name for test, name in _KINDS if test(mode)), "none")


def _too_large(path: Path, what: str, max_bytes: int) -> BadRequestError:
    return BadRequestError(
        f"{_shown(path)}: must have at most {format_bytes(max_bytes)}, as {what} does, and has more."
    )


def _unreadable(path: Path, what: str, error: OSError | ValueError) -> BadRequestError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return BadRequestError(f"{_shown(path)}: cannot be read ({reason}). Name the file of {what}.")


def _shown(path: Path) -> str:
    return excerpt(str(path), 500)
