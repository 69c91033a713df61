"""The unseen suite: each training is there, builds and makes steps; what a person would try; what picks are worth."""

from __future__ import annotations

import ast
import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import stages
from report_unseen import unseen
from scores import scored
from side_by_side import Pick, Taken, representatives
from suite import HALVES, MOST_SETTINGS, half_of, hand_grid, workloads

from autoaccel.records.settings import Settings, Value, settings_key

ROOT = Path(__file__).parents[2]
PLAIN = ROOT / "benchmarks" / "unseen" / "plain.py"
PACKAGES = ("torchvision", "timm", "transformers")
OWN: Settings = {
    "precision.autocast": "off",
    "layout.channels_last": False,
    "threads.intra_op": 4,
    "compile.mode": "off",
    "loader.workers": 0,
    "optimizer.fused": False,
}
VALUES: dict[str, tuple[Value, ...]] = {
    "precision.autocast": ("off", "bfloat16"),
    "layout.channels_last": (False, True),
    "threads.intra_op": (1, 2, 4),
    "compile.mode": ("off", "default"),
    "loader.workers": (0, 1, 2),
    "optimizer.fused": (False, True),
}


@pytest.mark.parametrize("half", HALVES)
def test_each_half_has_enough_to_be_compared_with_the_other(half: str) -> None:
    assert sum(half_of(path) == half for path in workloads().values()) >= 6


def test_the_suite_has_a_stage_and_a_line_in_the_readme_for_each_of_its_trainings() -> None:
    of_suite = [stage for stage in stages.STAGES if "unseen" in stage.results]
    assert [stage.results["unseen"] for stage in of_suite] == [len(workloads())]
    lines = (ROOT / "benchmarks" / "README.md").read_text().splitlines()
    listed = [line.split("|")[1:3] for line in lines if line.startswith(("| first | `", "| second | `"))]
    assert sorted(listed) == sorted([f" {half_of(path)} ", f" `{name}` "] for name, path in workloads().items())


@pytest.mark.parametrize("path", workloads().values(), ids=lambda path: path.stem)
def test_a_training_says_what_it_stands_for_and_what_to_expect(path: Path) -> None:
    module = ast.parse(path.read_text())
    said = ast.get_docstring(module) or ""
    assert "Stands for: " in said and "On two cores: " in said and "A user cares about: " in said
    assert any(isinstance(part, ast.FunctionDef) and part.name == "build" for part in module.body)


@pytest.mark.long
@pytest.mark.parametrize("path", workloads().values(), ids=lambda path: path.stem)
def test_a_training_builds_and_makes_steps(path: Path) -> None:
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    command = [sys.executable, str(PLAIN), str(path), "{}", "--seconds", "0", "--steps", "2"]
    done = subprocess.run(command, cwd=ROOT, env=_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout.splitlines()[-1])["step_seconds"]) == 2


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_a_plain_reading_brings_settings_to_bear_and_counts_later_steps_alone(tmp_path: Path) -> None:
    """Steps say on stderr under what they run; the plain script's numbers are of as many steps as it was told."""
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    settings = json.dumps({"precision.autocast": "bfloat16", "threads.intra_op": 1, "loader.workers": 1})
    command = [sys.executable, str(PLAIN), str(model), settings, "--seconds", "0", "--steps", "4"]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found["step_seconds"]) == 4
    assert done.stderr.split() == ["torch.bfloat16/1/True"] * (2 + 2 + 4)
    assert found["made_seconds"] >= sum(found["step_seconds"]) and 0 <= found["wait_share"] <= 1


MODEL = """
import sys
import torch
import autoaccel
from torch.utils.data import Dataset, get_worker_info

class Data(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.ones(4), get_worker_info() is not None

class Net(torch.nn.Linear):
    def forward(self, x):
        self.y = super().forward(x)
        return self.y

def step(model, batch):
    x, by_worker = batch
    y = model(x)
    print(f"{y.dtype}/{torch.get_num_threads()}/{bool(by_worker.all())}", file=sys.stderr)
    return y.float().mean()

def build():
    return autoaccel.Training(model=Net(4, 2), train_data=Data(), eval_data=Data(), step=step, epochs=1, batch_size=8,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1), evaluate=lambda model, loader: 0.0)
"""


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("without", [(), ("layout.channels_last",), ("precision.autocast",), ("compile.mode",)])
def test_a_hand_grid_is_small_and_holds_what_a_person_tries_first(waits: bool, without: tuple[str, ...]) -> None:
    values = {name: some for name, some in VALUES.items() if name not in without}
    grid = hand_grid(OWN, values, waits)
    keys = [settings_key(settings) for settings in grid]
    assert len(grid) <= MOST_SETTINGS and len(set(keys)) == len(keys)
    assert grid[0] == OWN
    joint = dict(OWN)
    for name, value in {"precision.autocast": "bfloat16", "layout.channels_last": True}.items():
        joint |= {name: value} if name not in without else {}
    assert joint in grid
    if waits:
        assert {**joint, "threads.intra_op": 1, "loader.workers": 2} in grid
    assert any(settings["loader.workers"] for settings in grid) == waits
    assert all(settings["optimizer.fused"] is False for settings in grid)
    assert {settings["threads.intra_op"] for settings in grid} == {1, 4}


PICKS = {
    "own": Pick(OWN),
    "autoaccel": Pick({**OWN, "precision.autocast": "bfloat16"}, search_seconds=500.0),
    "grid's best": Pick({**OWN, "precision.autocast": "bfloat16"}),
    "optuna": Pick({**OWN, "compile.mode": "default"}),
    "run_cpu": Pick(OWN, {"OMP_NUM_THREADS": "1"}),
    "everything on": Pick({**OWN, "layout.channels_last": True}),
}


def rounds() -> list[dict[str, Taken]]:
    """Return two rounds in which steps of 1 s became twice as fast by bfloat16, and by 60 s of compiling."""
    found = []
    for slower in (0.9, 1.1):
        twice = Taken(math.log(2 * slower), 0.0, 0.5)
        compiled = Taken(math.log(2 * slower), 60.0 if slower < 1 else 5.0, 0.5)
        own, launched = Taken(0.0, 0.3, 1.0), Taken(math.log(0.5), 0.0, 2.0)
        found.append({"own": own, "autoaccel": twice, "grid's best": twice, "optuna": compiled, "run_cpu": launched})
    return found


def test_picks_that_are_the_same_are_measured_once() -> None:
    """A ratio of two processes under the same settings is chance."""
    first = representatives(PICKS)
    assert first["grid's best"] == "autoaccel"
    assert first["run_cpu"] == "run_cpu"  # the variables differ


def test_a_pick_is_worth_what_it_saves_of_the_planned_run() -> None:
    rows = scored(PICKS, rounds(), planned_steps=100, startup_seconds=10.0)
    middle = 2 * math.sqrt(0.9 * 1.1)
    assert rows["autoaccel"]["steps"][0] == pytest.approx(middle)
    assert rows["autoaccel"]["run"] == pytest.approx(110 / (10 + 100 / middle))
    assert rows["optuna"]["run"] == pytest.approx(110 / (10 + (60 + 19 * 5) / 20 + 100 / middle))  # the first compiles
    assert rows["own"]["run"] == 1 and rows["own"]["cold_seconds"] == 0
    assert rows["autoaccel"]["steps_over_grid"] == pytest.approx([1.0, 1.0, 1.0])
    assert rows["optuna"]["run_over_grid"] < rows["autoaccel"]["run_over_grid"] == 1
    assert rows["run_cpu"]["steps"][2] == pytest.approx(0.5)
    assert "run" not in rows["everything on"]  # it never worked


def row(half: str, exit_code: int) -> dict[str, Any]:
    """Return what a row of results holds, as far as the page shows it."""
    tuned: dict[str, Any] = {"exit_code": exit_code, "wall_seconds": 421.0, "said": "last", "summary": "Own stay."}
    tuned["comparison"] = {"speedup": 1.98, "low": 1.7, "high": 2.3}
    tuned["accuracy"] = {"evidence": "share", "share": 0.2}
    tuned["search"] = {"proven_after_seconds": 245.0}
    picks = scored(PICKS, rounds(), 100, 10.0)
    return {"half": half, "planned_steps": 100, "own_step_seconds": 1.0, "tune": tuned, "picks": picks}


def test_the_page_shows_halves_apart_and_what_disappoints() -> None:
    lines = unseen({"b": row("second", 0), "a": row("first", 1), "c": row("first", 0)})
    tunes = [line for line in lines if "7 min 01 s" in line]
    assert [line.split("|")[2].strip() for line in tunes] == ["a", "c", "b"]
    assert "Own stay." in tunes[0] and "4 min" not in tunes[0]
    assert "1.98x (1.70 to 2.30): precision.autocast=bfloat16 | share, 20% of the run | 4 min 05 s" in tunes[1]
    assert any("does not train" in line for line in lines)
    halves = [line for line in lines if line.startswith(("| first | 2 |", "| second | 1 |", "| both | 3 |"))]
    counts = [[int(part) for part in line.split("|")[3:6]] for line in halves]  # proven, close, slower than own
    assert counts == [[1, 2, 0], [1, 1, 0], [2, 3, 0]]
