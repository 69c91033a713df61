"""Scripts that are tuned while they train: the same samples, losses and weights as in plain Python, to the last bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autoaccel.records.base import decode
from autoaccel.records.live import LiveTried, Remembered
from autoaccel.records.recipe import read_recipe
from autoaccel.records.settings import changed

SCRIPT = """
import random, sys
import numpy, torch
from torch import nn

steps, seed = int(sys.argv[1]), 0
random.seed(seed); numpy.random.seed(seed); torch.manual_seed(seed)

class Drawn(torch.utils.data.Dataset):
    def __init__(self):
        self.images, self.asked = torch.randn(256, 3, 16, 16), 0

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        self.asked += 1  # what looks at samples on its own would change the training
        noise = torch.rand(1) + random.random() + numpy.random.rand() + 0.001 * self.asked
        return self.images[index] * noise.float(), index % 10

class Order(torch.utils.data.Sampler):
    def __init__(self):
        self.times = 0

    def __len__(self):
        return 256

    def __iter__(self):
        self.times += 1  # what asks it on its own would change the order
        return iter(torch.randperm(256, generator=torch.Generator().manual_seed(self.times)).tolist())

model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(),
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(32, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
data = Drawn()
loader = torch.utils.data.DataLoader(data, 32, sampler=Order())
made = 0
while made < steps:
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        made += 1
        print(made, loss.item().hex())
        if made == steps:
            break
    schedule.step()
    model.eval()
    with torch.no_grad():
        model(data.images[:8])
    model.train()
print(sum(one.double().sum().item() for one in model.state_dict().values()).hex(), torch.rand(1).item().hex())
print(sorted(optimizer.state_dict()["param_groups"][0].items()), "_compiled_call_impl" in vars(model))
"""


def tried_in(folder: Path, run: str) -> list[LiveTried]:
    lines = (folder / "autoaccel-runs" / run / "live.jsonl").read_bytes().splitlines()
    return [decode(line, LiveTried) for line in lines]


QUICK = """
import autoaccel.live.blocks
autoaccel.live.blocks.BLOCK_SECONDS = 0.05
"""
"""Short blocks decide on nothing that is true, but within seconds."""


def outputs(folder: Path, *command: str, quick: bool = False) -> subprocess.CompletedProcess[str]:
    temporary = folder.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    (temporary / "sitecustomize.py").write_text(QUICK if quick else "")  # Python imports it at its start
    environ = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(temporary),
        "XDG_CACHE_HOME": str(temporary / "cache"),
    }
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(temporary), os.environ.get("PYTHONPATH"))))
    command = (sys.executable, *command)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env=environ)
    assert not list(temporary.glob("updates-*"))  # torch makes a folder for compiled code
    return done


def test_a_script_is_trained_to_its_end_as_in_plain_python(tmp_path: Path) -> None:
    # More than the largest block that the C library ever keeps by itself: the system hands it out in each step.
    source = SCRIPT.replace("loss = nn", "scratch = torch.ones(9 << 20)\n        loss = nn")
    assert source != SCRIPT
    (tmp_path / "train.py").write_text(source)
    plain = outputs(tmp_path, "train.py", "160")
    live = outputs(tmp_path, "-m", "autoaccel", "run", "train.py", "--space", "exact-only", "--", "160", quick=True)
    assert (live.returncode, live.stdout) == (plain.returncode, plain.stdout)
    assert plain.returncode == 0
    tried = tried_in(tmp_path, "train-1")
    assert tried[0].settings == {"memory.keep_freed": True}
    assert tried[0].comparison is not None
    given_up = sum(one.became == "given up" for one in tried)
    assert len(live.stderr.splitlines()) == 2 + given_up  # at its start, at its end, and where settings are given up
    assert sorted(path.name for path in tmp_path.iterdir()) == ["autoaccel-runs", "train.py"]


SLOW = """
import sys, time
import torch
from torch import nn

class Slow(nn.Conv2d):
    def forward(self, images):
        # Only with channels last is it fast.
        if self.training and not images.is_contiguous(memory_format=torch.channels_last):
            time.sleep(0.02)
        return super().forward(images)

torch.manual_seed(0)
inputs, labels = torch.randn(64, 3, 8, 8), torch.arange(64) % 10
model = nn.Sequential(Slow(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
steps = int(sys.argv[1]) if sys.argv[1:] else 500
for step in range(steps):
    loss = nn.functional.cross_entropy(model(inputs + 0.1 * torch.randn_like(inputs)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.005)
print("loss", loss.item())
"""
SPACE = """
title = "of a test"

[knobs]
"layout.channels_last" = [false, true]
"""
"""With one setting, which makes the script above faster."""
BUILD = """
import autoaccel, torch
from torch import nn


def build():
    inputs = torch.randn(512, 3, 24, 24, generator=torch.Generator().manual_seed(0))
    data = torch.utils.data.TensorDataset(inputs, torch.arange(512) % 10)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                          nn.Flatten(), nn.Dropout(0.1), nn.Linear(16, 10))
    return autoaccel.Training(
        model=model, train_data=data, eval_data=data, loss=nn.functional.cross_entropy, evaluate="accuracy",
        optimizer=lambda parameters: torch.optim.AdamW(parameters), epochs=EPOCHS, batch_size=32,
    )
"""
PLAINLY = """
import sys
from autoaccel.runs.workloads import find_workload
from autoaccel.runtime.whole_training import train_whole
result = train_whole(find_workload("build.py"), 3, lambda loop: None)
print(f"{result.metric}: {result.metrics[0]:.6g}")
"""


def epochs(printed: str) -> list[list[str]]:
    """Return what is printed without what depends on time."""
    return [line.split()[:6] for line in printed.splitlines() if not line.startswith("trained")]


def test_what_build_returns_is_trained_to_its_end_as_without_tuning(tmp_path: Path) -> None:
    (tmp_path / "build.py").write_text(BUILD.replace("EPOCHS", "40"))
    plain = outputs(tmp_path, "-c", PLAINLY)
    assert plain.returncode == 0, plain.stderr
    live = outputs(tmp_path, "-m", "autoaccel", "run", "build.py", "--space", "exact-only", "--seed", "3", quick=True)
    assert live.returncode == 0, live.stderr
    assert epochs(live.stdout) == epochs(plain.stdout)
    assert len(epochs(live.stdout)) == 41
    assert tried_in(tmp_path, "build-1")


def test_an_error_of_build_is_shown_as_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "build.py").write_text(BUILD.replace("EPOCHS", "1 // 0"))
    done = outputs(tmp_path, "-m", "autoaccel", "run", "build.py")
    assert done.returncode == 3
    assert "ZeroDivisionError" in done.stderr
    assert "build.py" in done.stderr


def test_one_that_ends_early_or_fails_does_so_as_in_plain_python(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    plain = outputs(tmp_path, "train.py", "5")
    live = outputs(tmp_path, "-m", "autoaccel", "run", "train.py", "--", "5")
    assert (live.returncode, live.stdout) == (plain.returncode, plain.stdout)
    (tmp_path / "train.py").write_text(SCRIPT.replace("schedule.step()", "raise SystemExit(7)"))
    assert outputs(tmp_path, "-m", "autoaccel", "run", "train.py", "--", "1000").returncode == 7


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.py",), "missing.py"),
        (("build.py",), "must return an autoaccel.Training"),
        (("build.py", "--save", "weights.pt"), "--save: with a recipe only"),
        (("train.py", "--seed", "3"), "cannot be used with a script"),
        (("train.py", "--space", "none"), "--space none: must be one of"),
        (("--space", "exact-only", "train.py", "--seed", "3"), "cannot be used with a script"),
    ],
)
def test_what_cannot_be_tuned_so_is_said_in_a_sentence(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "recipe.json").write_text("{}")
    (tmp_path / "build.py").write_text("def build(): ...\n")
    done = outputs(tmp_path, "-m", "autoaccel", "run", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def remembered_in(folder: Path) -> list[Remembered]:
    found = (folder.parent / "temporary" / "cache" / "autoaccel" / "history").glob("*.json")
    return [decode(path.read_bytes(), Remembered) for path in found]


def test_the_next_run_begins_with_what_this_one_has_found(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "space.toml").write_text(SPACE)
    (folder / "train.py").write_text(SLOW)
    arguments = ("-m", "autoaccel", "run", "train.py", "--space", "space.toml", "--")
    first = outputs(folder, *arguments, "500")
    assert "layout.channels_last=on" in first.stderr.splitlines()[-1]
    (entry,) = remembered_in(folder)
    assert (entry.settings, entry.runs, entry.searched) == ({"layout.channels_last": True}, 1, True)
    assert entry.training == str(folder / "train.py")
    recipe = read_recipe(folder / "autoaccel-runs" / "train-1" / "recipe.json")
    assert changed(recipe.settings, recipe.baseline.settings) == {"layout.channels_last": True}
    assert (recipe.live, recipe.projection.planned_steps, recipe.comparison.low > 1.2) == (True, 500, True)
    report = (folder / "autoaccel-runs" / "train-1" / "report.html").read_text()
    assert "Step time while it trained" in report
    assert "blocks of the training&#39;s own steps" in report
    with_recipe = outputs(
        folder, "-m", "autoaccel", "run", "autoaccel-runs/train-1/recipe.json", "train.py", "--", "30"
    )
    assert (with_recipe.returncode, with_recipe.stderr) == (0, "")
    second = outputs(folder, *arguments, "500")
    (tried,) = tried_in(folder, "train-2")
    assert (tried.settings, tried.became) == ({"layout.channels_last": True}, "kept")
    assert tried.after_steps < 40
    assert "x as fast as under your own settings" in second.stderr
    assert remembered_in(folder)[0].runs == 2
