from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest
import torch

from autoaccel.machine.torch_version import read_torch_version


@pytest.fixture
def install_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that makes a torch with this version.py the one that is found."""

    def install(source: str | None) -> None:
        package = tmp_path / "torch"
        package.mkdir()
        (package / "__init__.py").write_text("raise AssertionError('imported')")
        if source is not None:
            (package / "version.py").write_text(source)
        monkeypatch.delitem(sys.modules, "torch")
        monkeypatch.syspath_prepend(tmp_path)

    return install


def test_it_is_what_torch_says_of_itself() -> None:
    assert read_torch_version() == str(torch.__version__)


def test_the_build_is_told_where_the_metadata_leaves_it_out(install_torch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher's ranks took 2.15.0 for another torch than 2.15.0+cu132."""
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.15.0")
    # As the distribution of 2.15.0 has it, shortened.
    install_torch("from typing import Optional\n\n__version__ = '2.15.0+cu132'\ncuda: Optional[str] = '13.2'\n")
    assert read_torch_version() == "2.15.0+cu132"


@pytest.mark.parametrize("source", [None, "", "__version__ = find()", "no python"])
def test_files_that_do_not_tell_leave_it_to_the_metadata(
    source: str | None, install_torch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"{name} 2.15.0")
    install_torch(source)
    assert read_torch_version() == "torch 2.15.0"
