"""What is shipped: a source distribution and a wheel that works outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPACES = sorted(path.name for path in (ROOT / "search_spaces").iterdir())

FIND_SPACES = """
import site, sys
site.addsitedir(sys.argv[1])  # the package, or the .pth file of an editable install
sys.path += sys.argv[2:]  # what it depends on
from autoaccel.space.search_space import space_names, spaces_folder
print(spaces_folder(), *space_names(), sep="\\n")
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the source distribution, built from this checkout, and of the wheel, built from that."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    """The wheel, built from the source distribution."""
    return next(dist.glob("*.whl"))


def find_spaces(site: Path, folder: Path) -> tuple[Path, list[str]]:
    """Return where a process in some folder that finds autoaccel by `site` looks for spaces, and which it finds."""
    dependencies = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    # -I and -S: neither PYTHONPATH nor what is installed here may lead to this checkout.
    command = [sys.executable, "-I", "-S", "-c", FIND_SPACES, str(site), *dependencies]
    told = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    found, *names = told.stdout.splitlines()
    return Path(found), names


def test_the_source_distribution_holds_the_search_spaces(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {f"search_spaces/{name}" for name in SPACES} <= set(names)
    assert "autoaccel/__init__.py" in names


def test_a_wheel_from_the_source_distribution_finds_the_search_spaces(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    assert find_spaces(site, tmp_path) == (site / "autoaccel" / "search_spaces", [Path(name).stem for name in SPACES])


def test_an_editable_install_finds_the_search_spaces_of_the_checkout(tmp_path: Path) -> None:
    """As pip has it made; unpacked elsewhere, for the one that this environment has must stay."""
    code = "import sys; from hatchling.build import build_editable; print(build_editable(sys.argv[1]))"
    made = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, cwd=ROOT, check=True
    )
    site = tmp_path / "site"
    zipfile.ZipFile(tmp_path / made.stdout.strip()).extractall(site)
    assert not list(site.rglob("*.py"))
    assert find_spaces(site, tmp_path) == (ROOT / "search_spaces", [Path(name).stem for name in SPACES])


def test_a_checkout_finds_its_search_spaces(tmp_path: Path) -> None:
    assert find_spaces(ROOT, tmp_path) == (ROOT / "search_spaces", [Path(name).stem for name in SPACES])


def test_the_wheel_holds_all_data_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for data in (
        *(f"autoaccel/search_spaces/{name}" for name in SPACES),
        "autoaccel/records/recipe.schema.json",
        "autoaccel/report/report.html.j2",
        "autoaccel/py.typed",
    ):
        assert data in names
    assert not [name for name in names if name.startswith(("tests", "examples", "benchmarks", "search_spaces"))]


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
    assert "Tuning cannot help" in done.stdout
    assert (folder / "autoaccel-runs" / "model-1" / "recipe.json").exists()
