"""The arguments of a run's training, kept in a file of their own that nobody else can read."""

from __future__ import annotations

import os
from pathlib import Path

from autoaccel.errors import BadRequestError
from autoaccel.records.base import Record, encode, read_json


class KeptArguments(Record, frozen=True):
    """What is in the file."""

    arguments: tuple[str, ...]
    inode: int  # of the file itself: one that was copied, or came from a stranger, has another


def save_arguments(path: Path, arguments: tuple[str, ...]) -> None:
    """Write the file, whole or not at all; only this user can read it."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(encode(KeptArguments(arguments, os.fstat(descriptor).st_ino)) + b"\n")
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def load_arguments(path: Path) -> tuple[str, ...]:
    """Return the arguments, wherever they come from.

    Raises:
        BadRequestError: If the file is missing or holds something else.
    """
    return _read(path).arguments


def load_own_arguments(path: Path) -> tuple[str, ...]:
    """Return the arguments if this user has written them here: those of a stranger's run folder are not to be run.

    Raises:
        BadRequestError: If the file is missing, holds something else, or was brought here.
    """
    kept, found = _read(path), path.stat()
    if kept.arguments and (found.st_uid != os.getuid() or found.st_ino != kept.inode):
        raise BadRequestError(
            f"{path}: the arguments in it were not written on this computer by you, so they are not used unseen. Give "
            "the training's arguments again, after --."
        )
    return kept.arguments


def _read(path: Path) -> KeptArguments:
    return read_json(path, KeptArguments, "the arguments of a training")
