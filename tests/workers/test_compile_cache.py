"""Where compiled code is kept: with whom it is shared, and where it cannot be."""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from autoaccel.records.machine import Machine
from autoaccel.workers.compile_cache import open_compile_cache


def test_the_same_machine_finds_the_same_folder_and_another_processor_or_torch_another(
    machine: Machine, tmp_path: Path
) -> None:
    """Compiled for one processor, the code of a home that several machines see ends the process of another."""
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    folder = open_compile_cache(machine, environ)
    assert folder.is_dir() and folder.parent == tmp_path / "autoaccel" / "compiled"
    assert not list(folder.iterdir())
    assert open_compile_cache(machine, environ) == folder
    assert machine.torch is not None
    other_cpu = msgspec.structs.replace(machine.cpu, features=("avx2",))
    others = [
        msgspec.structs.replace(machine, cpu=other_cpu),
        msgspec.structs.replace(machine, python="3.12.1"),
        msgspec.structs.replace(machine, torch=msgspec.structs.replace(machine.torch, version="2.15.0")),
    ]
    assert len({folder, *(open_compile_cache(other, environ) for other in others)}) == 4
    # A rank of a launcher's job knows no more of its torch than the release.
    built = msgspec.structs.replace(machine, torch=msgspec.structs.replace(machine.torch, version="2.13.0+cpu"))
    assert open_compile_cache(built, environ) == folder


def test_it_lies_in_the_users_own_cache_and_is_nobody_elses(machine: Machine, tmp_path: Path) -> None:
    folder = open_compile_cache(machine, {"HOME": str(tmp_path), "XDG_CACHE_HOME": "relative"})
    assert folder.is_relative_to(tmp_path)
    assert folder.stat().st_mode & 0o077 == 0


def test_without_home_it_is_that_of_the_users_record(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = pwd.struct_passwd(("someone", "x", os.getuid(), 0, "", str(tmp_path), ""))
    monkeypatch.setattr(pwd, "getpwuid", lambda number: record)
    assert open_compile_cache(machine, {}).is_relative_to(tmp_path)


def test_a_user_without_home_and_record_is_told(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> pwd.struct_passwd:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(OSError, match="HOME is not set"):
        open_compile_cache(machine, {})


def _no_locks(file: object, operation: int) -> None:
    raise OSError(errno.ENOSYS, "Function not implemented")


Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (lambda patch: patch.setattr(fcntl, "flock", _no_locks), "not implemented"),
        (lambda patch: patch.setattr(os, "geteuid", lambda: os.getuid() + 1), "another user"),
        (lambda patch: patch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1)), "full"),
    ],
)
def test_a_folder_in_which_torch_would_fail_is_refused(
    patch: Patch, reason: str, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch(monkeypatch)
    with pytest.raises(OSError, match=reason):
        open_compile_cache(machine, {"XDG_CACHE_HOME": str(tmp_path)})


def test_a_home_that_cannot_be_written_is_refused(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        open_compile_cache(machine, {"HOME": str(tmp_path / "file")})
