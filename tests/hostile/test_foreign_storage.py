"""A password in the URL of a storage is shown nowhere, and written nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from autoaccel.errors import AutoaccelError, BadRequestError
from autoaccel.search import databases
from autoaccel.search.attributes import reached
from autoaccel.search.databases import PASSWORD, _with_password, open_database
from autoaccel.search.storage import first_line, hide

from . import samples
from .doors import give, refused

SECRET = "s3cr3t-w0rd"
NOBODY = "127.0.0.1:9"  # where nobody answers
URLS = {
    "PostgreSQL": f"postgresql://ada:{SECRET}@{NOBODY}/study",
    "MySQL": f"mysql://ada:{SECRET}@{NOBODY}/study",
    "MariaDB": f"mariadb://ada:{SECRET}@{NOBODY}/study",
    "a driver that is not there": f"postgresql+pg8000://ada:{SECRET}@{NOBODY}/study",
    "a database that nobody has": f"evildb://ada:{SECRET}@{NOBODY}/study",
    "a port that is none": f"postgresql://ada:{SECRET}@127.0.0.1:port/study",
    "a slash in the password": f"postgresql://ada:1234/{SECRET}@{NOBODY}/study",
    "another slash": f"postgresql://ada:{SECRET}/x@{NOBODY}/study",
    "an @ in the password": f"postgresql://ada:x@{SECRET}@{NOBODY}/study",
    "no user": f"postgresql://:{SECRET}@{NOBODY}/study",
    "in the options": f"postgresql://ada@{NOBODY}/study?password={SECRET}",
    "in an option that there is not": f"postgresql://ada@{NOBODY}/study?{'sslpassword'}={SECRET}&bogus=1",
    "of MySQL in the options": f"mysql://ada@{NOBODY}/study?ssl_key_password={SECRET}",
    "one slash is missing": f"postgresql:/ada:{SECRET}@{NOBODY}/study",
    "no scheme": f"ada:{SECRET}@{NOBODY}/study",
    "an escape in the host": f"postgresql://ada:{SECRET}@\x1b[2J/study",
    "a line end in the host": f"postgresql://ada:{SECRET}@a\nb/study",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(databases, "_OPENINGS", 1)  # a database that nobody answers for is asked once
    (tmp_path / "model.py").write_text(samples.MODEL)
    return tmp_path


@pytest.mark.parametrize("url", URLS.values(), ids=URLS)
def test_a_password_is_in_no_error(url: str, folder: Path) -> None:
    line = refused(give(["tune", "model.py", "--storage", url], folder), "--storage")
    assert SECRET not in line


@pytest.mark.parametrize("url", URLS.values(), ids=URLS)
def test_a_password_is_in_no_batch_script(url: str, folder: Path) -> None:
    shown = give(["tune", "model.py", "--storage", url, "--with", "slurm", "--workers", "2", "--dry-run"], folder)
    if "://" in url:
        refused(shown, "--storage")
        assert SECRET not in shown.stdout + shown.stderr


def test_what_to_do_instead_is_said(folder: Path) -> None:
    slurm = ["--with", "slurm", "--workers", "2", "--dry-run"]
    shown = give(["tune", "model.py", "--storage", URLS["PostgreSQL"], *slurm], folder)
    refused(shown, f"Leave it out of the URL, and set {PASSWORD}", "~/.pgpass")
    public = f"postgresql://ada@{NOBODY}/study"
    shown = give(["tune", "model.py", "--storage", public, *slurm], folder)
    assert shown.code == 0 and f"--storage {public} " in shown.stdout


def test_a_password_in_the_variable_is_used_and_not_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sqlalchemy.engine import make_url

    monkeypatch.setenv(PASSWORD, SECRET)
    assert _with_password(make_url("postgresql://ada@host/study")).password == SECRET
    assert _with_password(make_url("postgresql://ada:own@host/study")).password == "own"
    assert _with_password(make_url("sqlite:///a.db")).password is None
    with pytest.raises(BadRequestError) as refusal:
        open_database(f"postgresql://ada@{NOBODY}/study")
    assert SECRET not in str(refusal.value)
    slurm = ["--with", "slurm", "--workers", "2", "--dry-run"]
    shown = give(["tune", "model.py", "--storage", "postgresql://ada@host/study", *slurm], folder)
    assert shown.code == 0 and SECRET not in shown.stdout


def test_a_driver_that_quotes_its_address_shows_no_password() -> None:
    hide("p@ss w/rd")
    for quoted in ("p@ss w/rd", "p%40ss%20w/rd", "p%40ss+w%2Frd"):
        error = OperationalError("SELECT 1", {}, Exception(f"cannot connect to postgresql://ada:{quoted}@host"))
        assert "ss" not in first_line(error).replace("postgresql", "") and "***@host" in first_line(error)
        with pytest.raises(AutoaccelError) as raised, reached():
            raise error
        assert quoted not in str(raised.value)
