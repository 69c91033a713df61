"""What every record has in common, and how records reach a file and come back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.records.files import drop_cut_off_line, read_file
from autoaccel.units import excerpt

MAX_REASON = 300
"""Characters of what is wrong with a file, which may quote from it."""

RecordType = TypeVar("RecordType")


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of every record: immutable, and JSON with keys it does not know is refused."""


def encode(record: Any) -> bytes:
    """Return the record as one line of JSON."""
    return msgspec.json.encode(record)


def decode(data: bytes | str, kind: type[RecordType]) -> RecordType:
    """Return the record that the JSON holds.

    Raises:
        msgspec.MsgspecError: If it is not JSON, or not this kind of record.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError as error:
        raise msgspec.DecodeError("it is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError("a text in it is not UTF-8") from error


def write_text(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all: aside first, then renamed into place.

    Raises:
        OSError: If it cannot be written, with its name.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with naming(path):
        try:
            aside.write_text(text, encoding="utf-8")
            aside.replace(path)
        finally:
            with contextlib.suppress(OSError):  # of a disk that may not be written to; nothing was made there
                aside.unlink(missing_ok=True)


def append_line(path: Path, record: Any) -> None:
    """Append a record to a file of one a line, whole or not at all; a last line that a crash cut off goes first.

    Raises:
        OSError: If it cannot be written, with the name of the file.
    """
    if path.exists():
        drop_cut_off_line(path)
    with naming(path), path.open("ab", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        line = encode(record) + b"\n"
        written = 0
        try:
            while written < len(line):
                written += file.write(line[written:])
        except OSError:
            file.truncate(size)
            raise


def check_writable(folder: Path) -> None:
    """See that a file can be written in a folder.

    Raises:
        OSError: If it cannot, with the name of the folder.
    """
    file = folder / f".room.{os.getpid()}"
    with naming(folder):
        try:
            file.write_bytes(bytes(_ROOM_BYTES))
        finally:
            with contextlib.suppress(OSError):  # there is none
                file.unlink(missing_ok=True)


_ROOM_BYTES = 64 * 1024  # a few records


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let errors of the system name this file: those of writing name none."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def write_json(path: Path, record: Any) -> None:
    """Write a record as indented JSON, whole or not at all."""
    write_text(path, msgspec.json.format(encode(record), indent=2).decode() + "\n")


def read_json(
    path: Path, kind: type[RecordType], what: str, upgrade: Callable[[bytes], bytes] | None = None
) -> RecordType:
    """Return the record in a file.

    Args:
        path: Of the file.
        kind: Of the record.
        what: Names it in errors, such as "a recipe".
        upgrade: Turns the JSON that an earlier version wrote into today's.

    Raises:
        BadRequestError: If the file is missing, unreadable, too large or holds something else.
    """
    data = read_file(path, what)
    try:
        return decode(upgrade(data) if upgrade else data, kind)
    except msgspec.MsgspecError as error:
        raise BadRequestError(f"{path}: this is not {what}: {excerpt(str(error), MAX_REASON)}.") from error
