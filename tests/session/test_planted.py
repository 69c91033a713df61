"""Trainings that some settings break, in whole runs: each ends with the best of what works, proven, and says why."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.end_to_end
WriteModel = Callable[..., Path]

# Samples and a loss that wait instead of computing: what settings win, no neighbour of this machine can change.
WAITING = """
import os
import time
from pathlib import Path
from torch.utils.data import Dataset, get_worker_info

class Waiting(Dataset):
    def __len__(self):
        return 72

    def __getitem__(self, index):
        time.sleep(0.002)
        return INPUTS[index], TARGETS[index]

def slow_unless_short(output, target):
    if output.dtype != torch.bfloat16:
        time.sleep(0.03)
    return nn.functional.cross_entropy(output.float(), target)

tiny = build
"""


def tune(folder: Path, *options: str, shell: str = "{}") -> dict[str, Any]:
    """Tune model.py in a folder; return the recipe, what was printed beside it."""
    command = f"{sys.executable} -m autoaccel tune model.py --trainings 2000 --output run {' '.join(options)}"
    done = subprocess.run(
        ["bash", "-c", shell.format(command)], capture_output=True, text=True, cwd=folder, timeout=400
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    recipe: dict[str, Any] = json.loads((folder / "run" / "recipe.json").read_text())
    return {**recipe, "told": done.stdout}


def why_not(recipe: dict[str, Any], knob: str, value: object) -> str:
    found = [one["reason"] for one in recipe["search"]["values"] if (one["knob"], one["value"]) == (knob, value)]
    assert len(found) == 1, recipe["search"]["values"]
    return str(found[0])


def space(folder: Path, **values: list[object]) -> None:
    knobs = "".join(f'"{name.replace("__", ".")}" = {json.dumps(of)}\n' for name, of in values.items())
    (folder / "space.toml").write_text(f'title = "planted"\n[knobs]\n{knobs}')


@pytest.mark.long
def test_where_loader_workers_crash_everything_without_them_is_tried(write_model: WriteModel, tmp_path: Path) -> None:
    """The step waits for data, so that every first guess has workers: two failures ended the search beside a 2.8x."""
    write_model(
        WAITING
        + """
class Crashing(Waiting):
    def __getitem__(self, index):
        if get_worker_info() is not None and index > 60:  # not among the samples that are looked at beforehand
            os._exit(3)
        return super().__getitem__(index)

def build():
    return tiny(train_data=Crashing(), loss=slow_unless_short, epochs=20)
"""
    )
    space(tmp_path, precision__autocast=["off", "bfloat16"], optimizer__fused=[False, True], loader__workers=[0, 1, 2])
    recipe = tune(tmp_path, "--budget", "3m", "--space", "space.toml", "--max-drop", "10%")
    assert recipe["settings"]["precision.autocast"] == "bfloat16", recipe["told"]
    assert recipe["settings"]["loader.workers"] == 0
    assert recipe["comparison"]["low"] > 1.02
    assert "failed trials contain it, and no trial that worked does" in why_not(recipe, "loader.workers", 2)
    assert "is not tried again" in recipe["told"]


@pytest.mark.long
def test_an_exact_winner_whose_loss_is_no_number_is_refused_and_the_next_is_proven(
    write_model: WriteModel, tmp_path: Path
) -> None:
    """Of workers nobody expects it; it begins with the second pair of the proof, when the trials were fine."""
    write_model(
        WAITING
        + """
PROOF = Path.cwd() / "run" / "proof.jsonl"

class Diverging(Waiting):
    def __getitem__(self, index):
        inputs, target = super().__getitem__(index)
        worker = get_worker_info()
        if worker is not None and worker.num_workers == 4 and PROOF.exists():
            return inputs * float("nan"), target
        return inputs, target

def build():
    return tiny(train_data=Diverging(), epochs=20)
"""
    )
    space(tmp_path, loader__workers=[0, 2, 4])
    recipe = tune(tmp_path, "--budget", "3m", "--space", "space.toml")
    assert recipe["settings"]["loader.workers"] == 2, recipe["told"]
    assert recipe["comparison"]["low"] > 1.02
    assert "no longer a finite number" in why_not(recipe, "loader.workers", 4)
    results = [json.loads(line) for line in (tmp_path / "run" / "contenders.jsonl").read_text().splitlines()]
    assert [(one["number"], one["outcome"]) for one in results] == [(1, "fails"), (1, "proven")]


@pytest.mark.long
def test_where_the_model_asserts_its_batch_size_the_others_are_proven(write_model: WriteModel, tmp_path: Path) -> None:
    write_model(
        WAITING
        + """
class Rigid(nn.Sequential):
    def forward(self, inputs):
        assert not self.training or len(inputs) in (8, 16), f"batches of 16, not {len(inputs)}"
        return super().forward(inputs)

def build():
    model = Rigid(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    return tiny(model=model, train_data=Waiting(), loss=slow_unless_short, epochs=20)
"""
    )
    space(tmp_path, optimizer__batch_factor=[1.0, 2.0, 4.0], loader__workers=[0, 2])
    recipe = tune(tmp_path, "--budget", "3m", "--space", "space.toml")
    assert recipe["settings"]["optimizer.batch_factor"] == 1.0
    assert recipe["settings"]["loader.workers"] == 2, recipe["told"]
    for factor in (2.0, 4.0):
        assert "batches of 16, not" in why_not(recipe, "optimizer.batch_factor", factor)


@pytest.mark.long
def test_with_hardly_any_shared_memory_everything_without_workers_is_tried(
    write_model: WriteModel, tmp_path: Path
) -> None:
    """Containers give 64 MB of /dev/shm; with 1 MB a run ended after three failures, a quarter of its budget spent."""
    small = "unshare --mount bash -c 'mount -t tmpfs -o size=1m tmpfs /dev/shm && {}'"
    if subprocess.run(["bash", "-c", small.format("true")], capture_output=True).returncode:
        pytest.skip("this user may not mount")
    write_model(
        WAITING
        + """
class Large(Waiting):
    def __getitem__(self, index):
        inputs, target = super().__getitem__(index)
        return inputs.repeat(8192), target

def build():
    model = nn.Sequential(nn.AvgPool1d(8192), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    return tiny(model=model, train_data=Large(), eval_data=Large(), loss=slow_unless_short, epochs=20)
"""
    )
    space(tmp_path, precision__autocast=["off", "bfloat16"], optimizer__fused=[False, True], loader__workers=[0, 1, 2])
    recipe = tune(tmp_path, "--budget", "3m", "--space", "space.toml", "--max-drop", "50%", shell=small)
    assert recipe["settings"]["precision.autocast"] == "bfloat16", recipe["told"]
    assert recipe["settings"]["loader.workers"] == 0
    assert "failed trials contain it" in why_not(recipe, "loader.workers", 2)


ROUGH = """
class Cut(torch.autograd.Function):
    @staticmethod
    def forward(context, output):
        return output.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient.clamp(min=0)

def cut_if_short(output, target):
    if output.dtype != torch.bfloat16:
        time.sleep(0.03)
        return nn.functional.cross_entropy(output, target)
    return nn.functional.cross_entropy(Cut.apply(output.float()), target)
"""


@pytest.mark.long
def test_a_run_too_long_for_a_share_of_it_is_judged_by_what_rounding_does_to_updates(
    write_model: WriteModel, tmp_path: Path
) -> None:
    """Twenty thousand steps of 30 ms: three times a twentieth of them takes longer than the metric may."""
    write_model(WAITING + "def build():\n    return tiny(loss=slow_unless_short, epochs=4000)\n")
    space(tmp_path, precision__autocast=["off", "bfloat16"])
    recipe = tune(tmp_path, "--budget", "2m", "--space", "space.toml")
    assert recipe["settings"]["precision.autocast"] == "bfloat16", recipe["told"]
    assert recipe["comparison"]["low"] > 1.02
    accuracy = recipe["accuracy"]
    assert (accuracy["evidence"], accuracy["repeats"], accuracy["drop"]) == ("rounding", 0, None)
    assert accuracy["rounding"]["verdict"] == "holds" and accuracy["rounding"]["error_share"] < 0.01
    stages = {one["stage"]: one for one in recipe["search"]["stages"]}
    assert stages["metric"]["planned_seconds"] > 0 and stages["metric"]["spent_seconds"] > 0
    assert recipe["search"]["spent_on"]["training for the metric"] > 0
    assert "judged by rounding" in recipe["told"] and "verify --accuracy" in recipe["told"]
    assert "judged by rounding" in (tmp_path / "run" / "report.html").read_text()
    assert not (tmp_path / "run" / "rounding").exists()


@pytest.mark.long
def test_what_rounds_so_much_that_updates_show_it_is_refused_and_the_rest_is_proven(
    write_model: WriteModel, tmp_path: Path
) -> None:
    """Under bfloat16 only, gradients above zero alone are kept; what changes no number remains."""
    code = "def build():\n    return tiny(loss=cut_if_short, train_data=Waiting(), epochs=4000)\n"
    write_model(WAITING + ROUGH + code)
    space(tmp_path, precision__autocast=["off", "bfloat16"], loader__workers=[0, 2])
    recipe = tune(tmp_path, "--budget", "3m", "--space", "space.toml")
    assert recipe["settings"]["precision.autocast"] == "off", recipe["told"]
    assert recipe["settings"]["loader.workers"] == 2, recipe["told"]
    assert recipe["accuracy"]["evidence"] == "exact"
    assert "more than rounding: the mean" in recipe["told"]
    results = [json.loads(line) for line in (tmp_path / "run" / "contenders.jsonl").read_text().splitlines()]
    assert [one["outcome"] for one in results] == ["more than rounding", "proven"]
    assert recipe["open_proof"]["settings"]["precision.autocast"] == "bfloat16"  # runs may still tell
