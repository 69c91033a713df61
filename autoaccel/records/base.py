"""What every record has in common, and how records reach a file and come back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.records.files import read_file
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
    """Write a file that appears whole or not at all: aside first, then renamed into place."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


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
