"""Open the storage that several machines share: a journal in a shared folder, or a database."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy.exc
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from sqlalchemy.engine import make_url

from autoaccel.errors import BadRequestError

optuna.logging.set_verbosity(optuna.logging.WARNING)

_OPENINGS = 6  # workers that start together make the tables together, which all but one may fail at
_DRIVERS = {"postgresql": "postgresql+psycopg2", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}
_LOCK_SECONDS = 10  # after which the lock of a journal is broken: its holder was killed while it wrote a line
_BUSY_SECONDS = 60.0  # that SQLite waits for its file's lock


def open_storage(where: str) -> BaseStorage:
    """Return the storage that a path or a URL names.

    Args:
        where: A path that ends in .journal or .log, on a folder that all machines see, or the URL of a database.

    Raises:
        BadRequestError: If it is neither, or cannot be opened, or its driver is not installed.
    """
    if "://" in where:
        return _open_database(where)
    path = Path(where)
    if path.suffix not in (".journal", ".log"):
        raise BadRequestError(
            "--storage must be a path that ends in .journal or .log, in a folder that all machines see, or the URL of "
            f"a database such as postgresql://user@host/name, mysql://user@host/name or sqlite:///file.db, got {where}."
        )
    try:
        # Exclusive creation: a lock that holds on network file systems (NFS from version 3 on) too.
        lock = JournalFileOpenLock(str(path), grace_period=_LOCK_SECONDS)
        return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
    except OSError as error:
        raise BadRequestError(f"--storage {where}: cannot be opened ({error.strerror}).") from error


def _open_database(where: str) -> BaseStorage:
    try:
        url = make_url(where)
    except sqlalchemy.exc.ArgumentError as error:
        raise BadRequestError("--storage must be the URL of a database such as postgresql://user@host/name.") from error
    shown = url.render_as_string(hide_password=True)
    url = url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))
    options: dict[str, Any] = {"pool_pre_ping": True}  # a trial may take longer than a server keeps idle connections
    if url.drivername.startswith("sqlite"):
        options = {"connect_args": {"timeout": _BUSY_SECONDS}}
    for attempt in range(1, _OPENINGS + 1):
        try:
            storage = RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=options)
            return optuna.storages.get_storage(storage)  # which keeps finished trials instead of asking again
        except (ImportError, sqlalchemy.exc.NoSuchModuleError) as error:
            raise BadRequestError(
                f"--storage {shown}: {first_line(error.__cause__ or error)}. "
                "Drivers for PostgreSQL and MySQL come with: pip install 'autoaccel[storage]'"
            ) from error
        except (sqlalchemy.exc.SQLAlchemyError, StorageInternalError, RuntimeError) as error:
            if attempt == _OPENINGS:
                raise BadRequestError(f"--storage {shown}: cannot be opened ({first_line(error)}).") from error
            time.sleep(attempt * random.uniform(0.05, 0.2))
    raise AssertionError("the last attempt returns or raises")


def first_line(error: BaseException | None) -> str:
    """Return what an error says first: that of a database goes on with the statement and a link."""
    return str(error).strip().partition("\n")[0]
