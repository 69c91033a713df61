from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autoaccel.machine.compiler import find_compiler


@pytest.fixture
def programs(tmp_path, monkeypatch) -> Path:
    """A folder that is all of PATH, on Linux, with no CXX."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


def install(folder: Path, name: str) -> str:
    program = folder / name
    program.touch(mode=0o755)
    return str(program)


def test_linux_takes_the_gnu_compiler(programs):
    install(programs, "clang++")
    assert find_compiler() is None
    gnu = install(programs, "g++")
    assert find_compiler() == gnu


def test_macos_takes_clang(programs, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    install(programs, "g++")
    clang = install(programs, "clang++")
    assert find_compiler() == clang


def test_cxx_decides_alone(programs, monkeypatch):
    install(programs, "g++")
    clang = install(programs, "clang++-17")
    monkeypatch.setenv("CXX", "clang++-17")
    assert find_compiler() == clang
    monkeypatch.setenv("CXX", clang)
    assert find_compiler() == clang
    for useless in ("no-such-compiler", "ccache g++", ""):
        monkeypatch.setenv("CXX", useless)
        assert find_compiler() is None
