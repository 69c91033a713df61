"""Open a database that several machines share."""

from __future__ import annotations

import random
import time
from typing import Any

import optuna
import sqlalchemy.exc
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, RDBStorage
from sqlalchemy.engine import make_url

from autoaccel.errors import BadRequestError
from autoaccel.search.storage import first_line

_OPENINGS = 6  # workers that start together make the tables together, which all but one may fail at
_DRIVERS = {"postgresql": "postgresql+psycopg2", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}
_BUSY_SECONDS = 60.0  # that SQLite waits for its file's lock


def open_database(where: str) -> BaseStorage:
    """Return the storage that the URL of a database names.

    Raises:
        BadRequestError: If it cannot be opened, or its driver is not installed.
    """
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
                f"--storage {shown}: {first_line(error.__cause__ or error)}. Install drivers for PostgreSQL and "
                "MySQL with: pip install 'autoaccel[storage]'"
            ) from error
        except (sqlalchemy.exc.SQLAlchemyError, StorageInternalError, RuntimeError) as error:
            if attempt == _OPENINGS:
                raise BadRequestError(f"--storage {shown}: cannot be opened ({first_line(error)}).") from error
            time.sleep(attempt * random.uniform(0.05, 0.2))
    raise AssertionError("the last attempt returns or raises")
