from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

from autoaccel.machine.compiler import find_c_compiler, find_compiler, has_python_headers


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


def test_triton_takes_another_compiler_than_inductor_does(programs, monkeypatch):
    """A GPU needs a compiler of C, a CPU one of C++: each was told by the other."""
    monkeypatch.delenv("CC", raising=False)
    install(programs, "g++")
    assert find_c_compiler() is None
    clang = install(programs, "clang")
    assert find_c_compiler() == clang
    gnu = install(programs, "gcc")
    assert find_c_compiler() == gnu
    monkeypatch.setenv("CC", "no-such-compiler")
    assert find_c_compiler() is None


def test_headers_are_where_this_python_says(monkeypatch, tmp_path):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert not has_python_headers()
    (tmp_path / "Python.h").touch()
    assert has_python_headers()
