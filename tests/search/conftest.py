"""A storage of each kind, as workers on several machines would open it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.harness.postgres import find_postgres, running_postgres


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """An empty PostgreSQL database."""
    programs = find_postgres()
    if programs is None or importlib.util.find_spec("psycopg2") is None:
        pytest.skip("PostgreSQL or its driver is not installed")
    with running_postgres(programs) as url:
        yield url


@pytest.fixture(params=["journal", "sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What a person would give as --storage."""
    if request.param == "journal":
        return str(tmp_path / "study.journal")
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'study.db'}"
    return str(request.getfixturevalue("postgres_url"))
