"""What is shipped: a wheel that works outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_all_data_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for data in (
        "autoaccel/search_spaces/default.toml",
        "autoaccel/search_spaces/quick.toml",
        "autoaccel/records/recipe.schema.json",
        "autoaccel/report/report.html.j2",
        "autoaccel/py.typed",
    ):
        assert data in names
    assert not [name for name in names if name.startswith(("tests", "examples", "benchmarks"))]


def test_an_installed_wheel_tunes_in_a_folder_with_spaces(
    wheel: Path, write_model: Callable[..., Path], tmp_path: Path
) -> None:
    """Unpacked elsewhere and found first, as an installed package is; nothing of the checkout is on the path."""
    site, folder = tmp_path / "site", tmp_path / "an empty folder"
    zipfile.ZipFile(wheel).extractall(site)
    folder.mkdir()
    write_model().rename(folder / "model.py")
    environment = {**os.environ, "PYTHONPATH": str(site)}
    told = subprocess.run(
        [sys.executable, "-c", "import autoaccel; print(autoaccel.__file__)"],
        capture_output=True, text=True, cwd=folder, env=environment, check=True,
    )  # fmt: skip
    assert told.stdout.startswith(str(site))
    done = subprocess.run(
        [sys.executable, "-m", "autoaccel", "tune", "model.py"],
        capture_output=True, text=True, cwd=folder, env=environment, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Leave it alone" in done.stdout
    assert (folder / "autoaccel-runs" / "model-1" / "recipe.json").exists()
