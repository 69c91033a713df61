"""Open a database that several machines share."""

from __future__ import annotations

import os
import random
import re
import time
from typing import Any

import optuna
import sqlalchemy.exc
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, RDBStorage
from sqlalchemy.engine import URL, make_url

from autoaccel.errors import BadRequestError
from autoaccel.search.storage import first_line, hide

PASSWORD = "AUTOACCEL_STORAGE_PASSWORD"
"""Holds the password of a database whose URL names a user without one."""

_OPENINGS = 6  # workers that start together make the tables together, which all but one may fail at
_DRIVERS = {"postgresql": "postgresql+psycopg2", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}
_BUSY_SECONDS = 60.0  # that SQLite waits for its file's lock


def open_database(where: str) -> BaseStorage:
    """Return the storage that the URL of a database names.

    Raises:
        BadRequestError: If it cannot be opened, or its driver is not installed.
    """
    url = _with_password(_parsed(where))
    shown = f"{url.drivername}://{url.host or ''}/{url.database or ''}"
    for secret in _secrets_in(url):
        hide(secret)
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
                f"--storage {shown}: {first_line(error.__cause__ or error)}. Install drivers for PostgreSQL and "
                "MySQL with: pip install 'autoaccel[storage]'"
            ) from error
        except (sqlalchemy.exc.SQLAlchemyError, StorageInternalError, RuntimeError, TypeError, ValueError) as error:
            if attempt == _OPENINGS:
                raise BadRequestError(f"--storage {shown}: cannot be opened ({first_line(error)}).") from error
            time.sleep(attempt * random.uniform(0.05, 0.2))
    raise AssertionError("the last attempt returns or raises")


def check_is_public(where: str) -> None:
    """Refuse the URL of a database that holds a secret, where others may read it.

    Raises:
        BadRequestError: Saying how to pass it on instead.
    """
    if _secrets_in(_parsed(where)):
        raise BadRequestError(
            f"--storage: its password would stand in the batch script. Leave it out of the URL, and set {PASSWORD}, "
            "which Slurm passes on, or write it to ~/.pgpass."
        )


def _parsed(where: str) -> URL:
    """Return the URL. Errors do not quote it: it may hold a password.

    Raises:
        BadRequestError: If it is none, or cannot be read in one way only.
    """
    try:
        url = make_url(where)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        url = None
    if url is None or "@" in (url.host or "") or (url.host and "@" in (url.database or "")):
        raise BadRequestError(
            "--storage must be the URL of a database such as postgresql://user@host/name. In a password @ is written "
            f"%40, / %2F and : %3A; or leave it out, and set {PASSWORD}."
        ) from None
    return url


def _with_password(url: URL) -> URL:
    """Return the URL with the password that a variable holds, if it names a user without one."""
    password = os.environ.get(PASSWORD)
    return url.set(password=password) if password and url.username and not url.password else url


def _secrets_in(url: URL) -> list[str]:
    """Return what of a URL nobody else may see; drivers take passwords as options, too."""
    options = [
        text
        for name, value in url.query.items()
        if re.search("pass|pwd|secret|token|key", name, re.IGNORECASE)
        for text in ([value] if isinstance(value, str) else value)
    ]
    return [text for text in (str(url.password or ""), *options) if text]
