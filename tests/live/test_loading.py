"""Workers are tried while a script trains: exact where loading is, told where samples are drawn, else left alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autoaccel.records.recipe import read_recipe
from autoaccel.records.settings import changed
from tests.live.test_live_script import outputs, remembered_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked")

SCRIPT = """
import sys, time
import torch
from torch import nn

torch.manual_seed(0)

class Slow(torch.utils.data.Dataset):
    def __init__(self):
        self.inputs, self.asked, self.level = torch.randn(200, 8), 0, 1.0

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        time.sleep(0.002)
        return LOADED, index % 4

model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = Slow()
loader = torch.utils.data.DataLoader(data, 8, shuffle=True)
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
"loader.workers" = [0, 2]
"""


def script(loaded: str, each_step: str = "", each_epoch: str = "") -> str:
    return SCRIPT.replace("LOADED", loaded).replace("EACH_STEP", each_step).replace("EACH_EPOCH", each_epoch)


LOADED = {
    "the same each time": script("self.inputs[index]"),
    "changed between epochs": script("self.inputs[index] * self.level", each_epoch="data.level = 1.0 / (2 + epoch)"),
}


@pytest.mark.parametrize("source", LOADED.values(), ids=LOADED.keys())
def test_workers_load_what_the_script_would_have_loaded(source: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(source)
    (folder / "space.toml").write_text(SPACE)
    plain = outputs(folder, "train.py", "50")
    live = outputs(folder, "-m", "autoaccel", "run", "train.py", "--space", "space.toml", "--", "50", quick=True)
    assert (live.returncode, live.stdout) == (plain.returncode, plain.stdout), live.stderr
    assert plain.returncode == 0
    assert live.stderr.splitlines()[-1].endswith("loader.workers=2"), live.stderr
    recipe = read_recipe(folder / "autoaccel-runs" / "train-1" / "recipe.json")
    assert changed(recipe.settings, recipe.baseline.settings) == {"loader.workers": 2}
    assert recipe.accuracy is not None
    assert recipe.accuracy.evidence == "exact"
    (entry,) = remembered_in(folder)
    assert entry.settings == {"loader.workers": 2}


def test_samples_that_are_drawn_are_drawn_anew_and_that_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(script("self.inputs[index] + 0.1 * torch.randn(8)"))
    (tmp_path / "space.toml").write_text(SPACE)
    live = outputs(tmp_path, "-m", "autoaccel", "run", "train.py", "--space", "space.toml", "--", "50", quick=True)
    assert live.returncode == 0
    assert "loader.workers: other random numbers for your samples, as from another seed" in live.stderr
    recipe = read_recipe(tmp_path / "autoaccel-runs" / "train-1" / "recipe.json")
    assert recipe.accuracy is not None
    assert (recipe.accuracy.evidence, recipe.accuracy.redrawn) == ("redrawn", ("loader.workers",))
    (tmp_path / "space.toml").write_text("exact = true\n" + SPACE)
    live = outputs(tmp_path, "-m", "autoaccel", "run", "train.py", "--space", "space.toml", "--", "12", quick=True)
    assert live.returncode == 0
    assert not (tmp_path / "autoaccel-runs" / "train-2").exists()


CLOSED = {
    "counted": script("self.inputs[index] * self.count()").replace(
        "    def __len__",
        "    def count(self):\n        self.asked += 1\n        return 1 + 0.01 * self.asked\n\n    def __len__",
    ),
    "changed while it trains": script("self.inputs[index] * self.level", each_step="data.level *= 0.999"),
    "drawn by a sampler as it goes": script("self.inputs[index]")
    .replace("model = nn", "class Order(torch.utils.data.Sampler):\n    def __len__(self):\n        return 200\n\n"
             "    def __iter__(self):\n        for _ in range(200):\n            yield int(torch.randint(200, ()))\n\n"
             "model = nn", 1)
    .replace("shuffle=True", "sampler=Order()"),
    "its own workers": script("self.inputs[index]").replace("shuffle=True", "shuffle=True, num_workers=1"),
    "no time in loading": script("self.inputs[index]")
    .replace("time.sleep(0.002)", "").replace("loss.backward()", "time.sleep(0.01)\n        loss.backward()"),
}  # fmt: skip


@pytest.mark.parametrize("source", CLOSED.values(), ids=CLOSED.keys())
def test_loading_that_is_not_the_same_in_workers_is_left_alone(source: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(source)
    (tmp_path / "space.toml").write_text(SPACE)
    plain = outputs(tmp_path, "train.py", "12")
    live = outputs(tmp_path, "-m", "autoaccel", "run", "train.py", "--space", "space.toml", "--", "12", quick=True)
    assert (live.returncode, live.stdout) == (plain.returncode, plain.stdout), live.stderr
    assert plain.returncode == 0
    assert "your own settings were kept" in live.stderr
    assert not (tmp_path / "autoaccel-runs").exists()
