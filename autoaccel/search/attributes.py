"""Records as attributes of a study's trials, and what is said where its storage cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError

import msgspec
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial

from autoaccel.errors import AutoaccelError, BadRequestError
from autoaccel.records.base import MAX_REASON, Record, RecordType, decode, encode
from autoaccel.records.files import MAX_RECORD_BYTES
from autoaccel.search.storage import first_line
from autoaccel.units import excerpt

MAX_CHARACTERS = 10_000
"""Of an attribute: MySQL holds 65,535 bytes, and JSON makes up to six of a character."""


def pieces_of(record: Record, name: str) -> dict[str, str | int]:
    """Return attributes that hold a record in pieces; the last is their number, so it is there only if all are."""
    text = encode(record).decode()
    pieces = [text[start : start + MAX_CHARACTERS] for start in range(0, len(text), MAX_CHARACTERS)]
    return {**{f"{name} {number}": piece for number, piece in enumerate(pieces)}, name: len(pieces)}


def read_record(trial: FrozenTrial, kind: type[RecordType], name: str) -> RecordType | None:
    """Return the record in a trial's attributes, None if there is none.

    Raises:
        BadRequestError: If what is there is no such record.
    """
    attributes = trial.user_attrs
    if name not in attributes:
        return None
    count = attributes[name]
    pieces = [attributes.get(f"{name} {number}") for number in range(count)] if _is_count(count) else [None]
    if any(not isinstance(piece, str) for piece in pieces):
        raise written_by_others(trial.number, f"its {name} is not whole")
    try:
        return decode("".join(map(str, pieces)), kind)
    except msgspec.MsgspecError as error:
        raise written_by_others(trial.number, f"its {name} is none: {excerpt(str(error), MAX_REASON)}") from error


def _is_count(count: object) -> bool:
    return type(count) is int and 0 < count <= MAX_RECORD_BYTES // MAX_CHARACTERS


def written_by_others(number: int, reason: str) -> BadRequestError:
    """Return the error for a trial of a study that no worker of ours has written.

    Args:
        number: Of the trial.
        reason: What is wrong with it.
    """
    return BadRequestError(f"trial {number} of the study: {reason}. Something else writes to it: use another --study.")


@contextmanager
def reached() -> Iterator[None]:
    """Raise an AutoaccelError that says so in one sentence if the block cannot reach the storage."""
    try:
        yield
    except Exception as error:
        if not is_of_storage(error):
            raise
        cause = error.__cause__ if isinstance(error, StorageInternalError) else error
        raise AutoaccelError(
            f"the storage of the study cannot be reached ({first_line(cause)}). Finished trials are kept in it and "
            "in the folder of the run; run the same command again to resume."
        ) from error


def is_of_storage(error: Exception) -> bool:
    """Whether a storage could not do what it was asked to."""
    # By name: without a database, SQLAlchemy is not imported, which takes a while.
    is_of_database = any(kind.__module__.startswith("sqlalchemy.") for kind in type(error).__mro__)
    # A journal that something else has written to is not read on.
    return is_of_database or isinstance(error, (StorageInternalError, OSError, JSONDecodeError, RecursionError))
