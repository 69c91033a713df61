"""Workers are tried while a script trains: exact where loading is, told where samples are drawn, else left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.recipe import read_recipe
from autoaccel.records.settings import changed
from tests.live.test_live_script import outputs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked")

SCRIPT = """
import sys, time
import torch
from torch import nn

torch.manual_seed(0)

class Slow(torch.utils.data.Dataset):
    def __init__(self):
        self.inputs, self.asked, self.level = torch.randn(400, 8), 0, 1.0

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        time.sleep(float(sys.argv[2]))
        return LOADED, index % 4

model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = Slow()
loader = torch.utils.data.DataLoader(data, 4, shuffle=True)
for epoch in range(int(sys.argv[1])):
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item().hex())
        EACH_STEP
    EACH_EPOCH
print(sum(one.double().sum().item() for one in model.state_dict().values()).hex(), torch.rand(1).item().hex())
"""
SPACE = """
title = "of a test"

[knobs]
"loader.workers" = [0, 4]
"""


def script(loaded: str, each_step: str = "", each_epoch: str = "") -> str:
    return SCRIPT.replace("LOADED", loaded).replace("EACH_STEP", each_step).replace("EACH_EPOCH", each_epoch)


def plain(folder: Path, epochs: int) -> subprocess.CompletedProcess[str]:
    """Train in plain Python, with samples that are loaded at once."""
    done = outputs(folder, "train.py", str(epochs), "0")
    assert done.returncode == 0, done.stderr
    return done


def live(folder: Path, epochs: int) -> subprocess.CompletedProcess[str]:
    """Train while workers are tried, with samples that are worth it."""
    (folder / "space.toml").write_text(SPACE)
    run = ("-m", "autoaccel", "run", "train.py", "--space", "space.toml", "--", str(epochs), "0.005")
    return outputs(folder, *run, quick=True)


def accuracy_in(folder: Path) -> Accuracy:
    recipe = read_recipe(folder / "autoaccel-runs" / "train-1" / "recipe.json")
    assert changed(recipe.settings, recipe.baseline.settings) == {"loader.workers": 4}
    assert recipe.accuracy is not None
    return recipe.accuracy


def test_workers_load_what_the_script_would_have_loaded(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(script("self.inputs[index]"))
    done = live(tmp_path, 8)
    assert (done.returncode, done.stdout) == (0, plain(tmp_path, 8).stdout), done.stderr
    assert done.stderr.splitlines()[-1].endswith("loader.workers=4"), done.stderr
    assert accuracy_in(tmp_path).evidence == "exact"


@pytest.mark.long
def test_samples_that_are_drawn_are_drawn_anew_and_that_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(script("self.inputs[index] + 0.1 * torch.randn(8)"))
    done = live(tmp_path, 8)
    assert done.returncode == 0
    assert "loader.workers: other random numbers for your samples, as from another seed" in done.stderr
    found = accuracy_in(tmp_path)
    assert (found.evidence, found.redrawn) == ("redrawn", ("loader.workers",))


CLOSED = {
    "counted": script("self.inputs[index] * self.count()").replace(
        "    def __len__",
        "    def count(self):\n        self.asked += 1\n        return 1 + 0.01 * self.asked\n\n    def __len__",
    ),
    "changed while it trains": script("self.inputs[index] * self.level", each_step="data.level *= 0.999"),
    "changed between epochs": script("self.inputs[index] * self.level", each_epoch="data.level = 1 / (2 + epoch)"),
    "drawn by a sampler as it goes": script("self.inputs[index]")
    .replace("model = nn", "class Order(torch.utils.data.Sampler):\n    def __len__(self):\n        return 400\n\n"
             "    def __iter__(self):\n        for _ in range(400):\n            yield int(torch.randint(400, ()))\n\n"
             "model = nn", 1)
    .replace("shuffle=True", "sampler=Order()"),
    "its own workers": script("self.inputs[index]").replace("shuffle=True", "shuffle=True, num_workers=1"),
    "no time in loading": script("self.inputs[index]")
    .replace("time.sleep(float(sys.argv[2]))", "pass")
    .replace("loss.backward()", "time.sleep(0.1)\n        loss.backward()"),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("source", CLOSED.values(), ids=CLOSED.keys())
def test_loading_that_is_not_the_same_in_workers_is_left_alone(source: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(source)
    done = live(tmp_path, 3)
    assert (done.returncode, done.stdout) == (0, plain(tmp_path, 3).stdout), done.stderr
    assert "your own settings were kept" in done.stderr
    assert not (tmp_path / "autoaccel-runs").exists()
