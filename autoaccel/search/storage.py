"""Open the storage that several machines share: a journal in a shared folder, or a database."""

from __future__ import annotations

import urllib.parse
from pathlib import Path

import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from autoaccel.errors import BadRequestError
from autoaccel.records.files import is_regular, is_there

optuna.logging.set_verbosity(optuna.logging.WARNING)

_secrets: set[str] = set()  # that this process was told

_LOCK_SECONDS = 10  # after which the lock of a journal is broken: its holder was killed while it wrote a line


def open_storage(where: str) -> BaseStorage:
    """Return the storage that a path or a URL names.

    Args:
        where: A path that ends in .journal or .log, on a folder that all machines see, or the URL of a database.

    Raises:
        BadRequestError: If it is neither, or cannot be opened, or its driver is not installed.
    """
    if "://" in where:
        # Not before it is needed: the database library takes a while to import.
        from autoaccel.search.databases import open_database

        return open_database(where)
    path = Path(where)
    if path.suffix not in (".journal", ".log"):
        raise BadRequestError(
            "--storage must be a path that ends in .journal or .log, in a folder that all machines see, or the URL of "
            "a database such as postgresql://user@host/name, mysql://user@host/name or sqlite:///file.db, got "
            # What has a user in it is an address that lacks its ://, and may have a password in it as well.
            f"{'an address without ://' if '@' in where else where}."
        )
    try:
        # Exclusive creation: a lock that holds on network file systems (NFS from version 3 on) too.
        lock = JournalFileOpenLock(str(path), grace_period=_LOCK_SECONDS)
        if is_there(path) and not is_regular(path):
            raise BadRequestError(f"--storage {where}: must be a regular file, or none yet. Name another.")
        return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        kind = type(error).__name__
        raise BadRequestError(f"--storage {where}: this is not a journal of Optuna ({kind}). Name another.") from error
    except OSError as error:
        raise BadRequestError(f"--storage {where}: cannot be opened ({error.strerror}).") from error


def hide(secret: str) -> None:
    """Let no message of a storage show this text from now on."""
    if secret:
        _secrets.update((secret, urllib.parse.quote(secret), urllib.parse.quote_plus(secret)))


def first_line(error: BaseException | None) -> str:
    """Return the first line of an error's message, without secrets: a database adds the statement and a link."""
    text = str(error).strip().partition("\n")[0]
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
