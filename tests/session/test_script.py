"""A script that has never heard of autoaccel is tuned, proven and run, and its folder stays as it is."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autoaccel.records.recipe import read_recipe
from autoaccel.records.workload import BuildFunction, Script
from autoaccel.runs.workloads import find_module, find_script, find_workload

ROOT = Path(__file__).parents[2]


def autoaccel(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    arguments = [sys.executable, "-m", "autoaccel", *command]
    return subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize(
    "text",
    [
        "def build():\n    pass",
        "async def build(): pass",
        "from model import build",
        "from model import make as build",
        "from model import *",
        "from parts import *",
        "build = make",
        "if True:\n    def build(): pass",
        "try:\n    from model import build\nexcept ImportError:\n    build = None",
        "def broken(",
    ],
)
def test_a_file_that_may_define_build_is_a_workload(text: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "model.py").write_text("from train import *\n\ndef build(): pass")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("from .one import *")
    (tmp_path / "parts" / "one.py").write_text("build = make")
    assert isinstance(find_workload(str(tmp_path / "train.py")), BuildFunction)
    assert isinstance(find_script(str(tmp_path / "train.py")), Script)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "import model",
        "def main():\n    def build(): pass",
        "class Model:\n    build = 3",
        "model.build = 3",
        "from utils import *\nfrom numpy import *\nfrom ..elsewhere import *",
        "'build'",
    ],
)
def test_any_other_file_is_a_script(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(text)
    Path("utils.py").write_text("from train import *")
    found = find_workload("train.py", ["--epochs", "3"])
    assert isinstance(found, Script)
    assert (found.path, found.program, found.folder) == (str(tmp_path / "train.py"), "train.py", str(tmp_path))
    assert found.arguments == ("--epochs", "3")
    assert isinstance(find_workload("train.py:make"), BuildFunction)


def test_a_launcher_is_told_apart_by_what_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("--nproc_per_node", "2", "train.py")
    digests = []
    for text in ("one", "other"):
        Path("train.py").write_text(text)
        found = find_module("torch.distributed.run", arguments)
        assert found.is_launcher and found.arguments == arguments
        digests.append(found.sha256)
    assert digests == [hashlib.sha256(text).hexdigest() for text in (b"one", b"other")]


def test_a_file_with_nothing_to_measure_is_declined(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def bild():\n    pass")
    done = autoaccel(tmp_path, "tune", "train.py")
    assert done.returncode == 2
    assert done.stderr.startswith("autoaccel: train.py: it ended before an optimizer of torch.optim made a step")
    assert "call that function build()" in done.stderr


@pytest.mark.end_to_end
def test_a_script_is_tuned_and_run_with_its_recipe(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "scripts" / "slow_loader.py", tmp_path / "train.py")
    (tmp_path / "workers.toml").write_text('title = "workers only"\n[knobs]\n"loader.workers" = [0, 2]\n')
    # Far more than it takes: beside other tests each process may take half a minute to start.
    budget = ("--budget", "20m")
    done = autoaccel(tmp_path, "tune", "train.py", *budget, "--space", "workers.toml", "--", "--epochs", "400")
    assert done.returncode == 0, done.stdout + done.stderr
    recipe = read_recipe(tmp_path / "autoaccel-runs" / "train-1" / "recipe.json")
    assert recipe.settings["loader.workers"] == 2
    assert recipe.comparison.low > 1.2 and recipe.script is not None
    assert recipe.projection.planned_steps == 400 * 16
    assert "script  planned  6,400 steps, 16 an epoch: range(args.epochs) in train.py" in done.stdout
    names = {"train.py", "workers.toml", "autoaccel-runs"}
    assert {path.name for path in tmp_path.iterdir()} == names  # no checkpoint of a trial

    ran = autoaccel(tmp_path, "run", "autoaccel-runs/train-1/recipe.json", "train.py", "--", "--epochs", "2")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "done after 2 epochs with 2 workers"
    assert {path.name for path in tmp_path.iterdir()} == {*names, "last.pt"}  # a run of its own
