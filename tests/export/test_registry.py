"""Targets of other packages: found by their entry point, rendered and started as the built-in ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autoaccel.errors import BadRequestError
from autoaccel.export import TARGETS
from autoaccel.export.registry import find_target, find_targets
from autoaccel.export.target import Target
from autoaccel.records.base import write_json
from autoaccel.records.machine import Machine

from .samples import make_job, make_recipe, make_server_recipe

WriteModel = Callable[..., Path]

PACKAGE = """
import sys
from autoaccel.records.launch import Rendered

class Planets:
    name = "planets"

    def check(self, recipe, job):
        return ["planets do not start again"] if job.max_restarts else []

    def render(self, recipe, job):
        copy = "open('started', 'w').write(open('job.txt').read())"
        text = f"{job.nodes * job.ranks} ranks\\n"
        return Rendered((sys.executable, "-c", copy), {"job.txt": text}, not_expressed=("no orbit is known",))

TARGET = Planets()
BROKEN = 1 / 0 if BREAKS else None

class Slurm(Planets):
    name = "slurm"

ANOTHER_SLURM = Slurm()
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return a function that installs a package with one entry point, and returns where."""

    def installed(entry: str = "TARGET", breaks: bool = False) -> Path:
        site = tmp_path / "site"
        about = site / "planets-1.0.dist-info"
        about.mkdir(parents=True)
        (site / f"planets_{entry.lower()}.py").write_text(PACKAGE.replace("BREAKS", str(breaks)))
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: planets\nVersion: 1.0\n")
        told = f"[autoaccel.targets]\nplanets = planets_{entry.lower()}:{entry}\n"
        (about / "entry_points.txt").write_text(told)
        monkeypatch.syspath_prepend(site)
        monkeypatch.delitem(sys.modules, f"planets_{entry.lower()}", raising=False)
        return site

    return installed


def test_built_in_targets_are_found_by_name() -> None:
    page = (Path(__file__).parents[2] / "docs" / "launching.md").read_text("utf-8")
    assert list(find_targets()) == [*TARGETS] and {"torchrun", "local"} < {*TARGETS}
    for name, target in find_targets().items():
        assert isinstance(target, Target)
        assert find_target(name) is target and target.name == name
        assert f"| `{name}` |" in page
    with pytest.raises(BadRequestError, match=f"--with must be one of {', '.join(TARGETS)}, got 'slrum'"):
        find_target("slrum")


def test_a_package_s_target_is_listed_and_renders(install: Callable[..., Path]) -> None:
    install()
    assert list(find_targets()) == [*TARGETS, "planets"]
    found = find_target("planets").render(make_server_recipe(), make_job("planets", nodes=3))
    assert found.files == {"job.txt": "6 ranks\n"}
    with pytest.raises(BadRequestError, match=r"planets, got 'planet'[.] Did you mean planets"):
        find_target("planet")


@pytest.mark.parametrize(
    ("entry", "breaks", "message"),
    [
        ("Planets", False, "of planets must be an object with name, check and render, got the class Planets"),
        ("PACKAGE", False, "cannot be loaded: .* Repair or uninstall the package"),
        ("TARGET", True, "cannot be loaded: division by zero"),
        ("BROKEN", False, "must be an object with name, check and render, got NoneType"),
        ("ANOTHER_SLURM", False, "conflicts with another target 'slurm'"),
    ],
)
def test_a_package_that_brings_no_target_is_named(
    install: Callable[..., Path], entry: str, breaks: bool, message: str
) -> None:
    install(entry, breaks)
    with pytest.raises(BadRequestError, match=message):
        find_targets()


def test_a_package_s_target_is_launched(
    install: Callable[..., Path], machine: Machine, write_model: WriteModel, tmp_path: Path
) -> None:
    environment = {"PYTHONPATH": ":".join([str(install()), *filter(None, sys.path)])}
    folder = tmp_path / "work"
    folder.mkdir()
    recipe = tmp_path / "recipe.json"
    write_json(recipe, make_recipe(machine, {"parallel.world_size": 2}))

    def launch(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "autoaccel", "launch", recipe, write_model(), "--with", "planets", *options]
        return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300)

    shown = launch("--dry-run")
    assert (shown.returncode, shown.stdout) == (0, "2 ranks\n"), shown.stderr
    assert "no orbit is known" in shown.stderr
    assert not list(folder.iterdir())
    refused = launch("--max-restarts", "1")
    assert refused.returncode == 2
    assert "planets do not start again" in refused.stderr
    assert launch("--ranks", "3").returncode == 0
    assert (folder / "started").read_text() == "3 ranks\n"
    replaced = launch()
    assert replaced.returncode == 2
    assert "job.txt would be overwritten" in replaced.stderr
    assert (folder / "job.txt").read_text() == "3 ranks\n"
